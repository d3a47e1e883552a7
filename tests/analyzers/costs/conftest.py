"""FLOPs of real calls: counted by torch while a profiler records them, and from what it recorded."""

from __future__ import annotations

import pytest

from profsuite.analyzers.analysis import Analysis
from profsuite.analyzers.costs import MATRIX_KINDS
from profsuite.trace.load import load


@pytest.fixture
def recorded(tmp_path):
    """A function that runs its argument under torch.profiler and gives the ``Analysis`` of the recording."""
    torch = pytest.importorskip("torch")

    def run(work):
        from torch.profiler import ProfilerActivity, profile

        path = tmp_path / f"run{len(list(tmp_path.iterdir()))}.json"
        with profile(activities=[ProfilerActivity.CPU], record_shapes=True, acc_events=True) as prof:
            work()
        prof.export_chrome_trace(str(path))
        return Analysis(load(path, cache=False))

    torch.manual_seed(0)
    return run


@pytest.fixture
def counted():
    """A function that gives what ``FlopCounterMode`` counts of its argument."""
    pytest.importorskip("torch")

    def run(work):
        from torch.utils.flop_counter import FlopCounterMode

        with FlopCounterMode(display=False) as counter:
            work()
        return counter.get_total_flops()

    return run


@pytest.fixture
def priced(recorded):
    """A function that runs its argument and gives every distinct call with a cost: (op, cost), in order."""

    def run(work):
        costs = recorded(work).device_costs.costs
        return [
            (costs.priced[costs.price[owner]].name, costs.priced[costs.price[owner]].cost) for owner in costs.owners
        ]

    return run


def product_flops(analysis):
    """FLOPs of the products (matrices, convolutions, attention) of a recording on the CPU."""
    return sum(op.attained.flops for op in analysis.roofline_ops if op.kind in MATRIX_KINDS)
