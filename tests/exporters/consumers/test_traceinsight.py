"""traceinsight on our Chrome JSON: what it finds is what it finds in the original."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import profsuite

TOTALS = (Path(__file__).parents[3] / "benchmarks" / "peer_totals.py").read_text("utf-8")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["a100_nccl_metadata", "v100_resnet50_workers0"])
def test_totals(name: str, ask: Any, real: Callable[[str], Path], tmp_path: Path) -> None:
    path = real(name)
    found = ask("hta", TOTALS, profsuite.export(path, tmp_path / "x.json", cache=False))
    assert found == ask("hta", TOTALS, path)
    ((row,),) = found["get_temporal_breakdown"]
    assert row["compute_time(us)"] > 0
    assert row["kernel_time(us)"] == sum(row[f"{what}_time(us)"] for what in ("idle", "compute", "non_compute"))
