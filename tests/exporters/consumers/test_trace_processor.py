"""Perfetto's trace processor on our files; it is a binary that no package of Python's holds."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import profsuite


@pytest.mark.parametrize("suffix", ["pftrace", "json"])
def test_slices(suffix: str, real: Callable[[str], Path], tmp_path: Path) -> None:
    binary = (
        os.environ.get("TRACE_PROCESSOR") or shutil.which("trace_processor_shell") or shutil.which("trace_processor")
    )
    if binary is None:
        pytest.skip("trace_processor_shell is not on the path, and TRACE_PROCESSOR does not name it")
    processor = pytest.importorskip("perfetto.trace_processor", reason="the package perfetto is not installed")
    trace = profsuite.load(real("h100_bert_small"), cache=False)
    path = profsuite.export(trace, tmp_path / f"x.{suffix}")
    with processor.TraceProcessor(str(path), config=processor.TraceProcessorConfig(bin_path=binary)) as opened:
        (row,) = opened.query("select count(*) as num, sum(max(dur, 0)) as total from slice where dur > 0")
        long = trace.array("slice", "dur") > 0
        assert (row.num, row.total) == (int(long.sum()), int(trace.array("slice", "dur").sum()))
        dropped = opened.query("select sum(value) as num from stats where severity in ('error', 'data_loss')")
        assert next(iter(dropped)).num in (None, 0)
