"""FLOPs of real calls: counted by torch while a profiler records them, and from what it recorded."""

from __future__ import annotations

import json

import pytest

from profsuite.analyzers.analysis import Analysis
from profsuite.analyzers.costs import MATRIX_KINDS, cost_of, parse_call
from profsuite.trace.load import load

TYPES = {
    "bf16": "c10::BFloat16",
    "fp16": "c10::Half",
    "fp32": "float",
    "fp8": "c10::Float8_e4m3fn",
    "int64": "long int",
}


def recorded_call(name, *inputs, **options):
    """Inputs are ``(dtype, *sizes)``, lists of sizes, or scalars as text; None is an argument that was left out."""
    dims, types, values = [], [], []
    for each in inputs:
        values.append(each if isinstance(each, str) else "")
        if isinstance(each, tuple):
            dims.append(list(each[1:]))
            types.append(TYPES.get(each[0], each[0]))
        elif isinstance(each, list):
            dims.append(each)
            types.append("TensorList")
        else:
            dims.append([])
            types.append("" if each is None else "ScalarList" if each.startswith("[") else "Scalar")
    text = [json.dumps(part) for part in (dims, types, None, values)]
    return parse_call(name, text[0], text[1], options.pop("strides", None), text[3], **options)


@pytest.fixture
def call():
    """A function that gives an op's call as a recorder would write it."""
    return recorded_call


@pytest.fixture
def cost():
    """A function that gives the cost of such a call."""
    return lambda name, *inputs, **options: cost_of(recorded_call(name, *inputs, **options))


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
