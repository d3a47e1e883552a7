"""The replay against an independent truth: the generator simulates the same job with other durations.

``benchmarks/gen_trace.py`` is a discrete simulation of a data-parallel training job; with one rank its only unknowns
are how long kernels and collectives take.  What the replay of one job predicts is compared with the job simulated anew.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from profsuite.analyzers.analysis import Analysis
from profsuite.analyzers.whatif.edits import Edit
from profsuite.analyzers.whatif.replay import replay
from profsuite.trace.load import load

GENERATOR = Path(__file__).parents[3] / "benchmarks" / "gen_trace.py"


@pytest.fixture(scope="module")
def job(tmp_path_factory):
    """A function from options to the analysis of the job that was simulated with them."""
    made = {}

    def simulated(*options):
        if options not in made:
            folder = tmp_path_factory.mktemp("job")
            common = ("--size-mb", "1", "--ranks", "1", "--no-stack", "--no-memory", "--out", str(folder))
            subprocess.run([sys.executable, str(GENERATOR), *common, *options], check=True, stdout=subprocess.DEVNULL)
            made[options] = Analysis(load(folder / "rank_0.json", cache=False))
        return made[options]

    return simulated


@pytest.mark.parametrize("factor", ["1.3", "0.7"])
def test_kernels_that_take_longer_or_shorter(job, factor):
    before = job("--bus-gbps", "50")
    after = job("--bus-gbps", "50", "--slow-rank", "0", "--slow-factor", factor)
    found = replay(before, before.graph, Edit(scales=(("compute", float(factor)),)))
    change = after.graph.length_ns - before.graph.length_ns
    assert abs(change) > 0.1 * before.graph.length_ns
    assert -found.saving_ns == pytest.approx(change, rel=0.01)


@pytest.mark.parametrize("bus", ["25", "100"])
def test_a_slower_and_a_faster_network(job, bus):
    before, after = job("--bus-gbps", "50"), job("--bus-gbps", bus)
    factor = after.breakdown[0].shares.comm_ns / before.breakdown[0].shares.comm_ns
    found = replay(before, before.graph, Edit(scales=(("comm", factor),)))
    change = after.graph.length_ns - before.graph.length_ns
    assert abs(change) > 0.005 * before.graph.length_ns
    assert -found.saving_ns == pytest.approx(change, rel=0.05)
