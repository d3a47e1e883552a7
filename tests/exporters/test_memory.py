"""A memory report in words, tables and numbers; the section in a trace's report."""

from __future__ import annotations

import csv
import io

import pytest
from msgspec.structs import replace

from profsuite.analyzers.memory.model import (
    DeviceMemory,
    LiveAllocation,
    MemoryGrowth,
    MemoryPeak,
    MemoryPoint,
    MemoryReport,
    MemoryShare,
    StepMemory,
)
from profsuite.exporters import html, markdown, text
from profsuite.exporters.memory import document, render
from profsuite.exporters.sections.memory import memory_sections

HOSTILE = "\x1b[31mevil\x07 <script>alert(1)</script> |`x`\n=1+1"


@pytest.fixture
def memory() -> MemoryReport:
    """One device with everything that a trace has, and hostile names."""
    share = MemoryShare(name=HOSTILE, bytes=3_000_000, count=2, pct=75.0)
    rest = MemoryShare(name=None, bytes=1_000_000, count=1, pct=25.0)
    one = LiveAllocation(
        bytes=3_000_000, category="activation", name=None, op=HOSTILE, module=None, frame="train.py(7): f", step=3,
        end_step=3, start_ns=10, end_ns=1_000_010, removing_saves_bytes=0,
    )  # fmt: skip
    peak = MemoryPeak(
        ts_ns=10, entry=None, step=3, allocated_bytes=4_000_000, reserved_bytes=5_000_000, unseen_bytes=1_000_000,
        by_category=(
            MemoryShare(name="activation", bytes=3_000_000, count=2, pct=75.0),
            MemoryShare(name="unknown", bytes=1_000_000, count=1, pct=25.0),
        ),
        by_op=(share, rest), by_module=None, by_frame=(share, rest), largest=(one,),
    )  # fmt: skip
    growth = MemoryGrowth(
        first_step=1, last_step=4, num_steps=4, bytes_per_step=1000, total_bytes=3000, monotone=True,
        by_op=(share,), by_module=None, by_frame=None,
    )  # fmt: skip
    device = DeviceMemory(
        device_type="CUDA", device=0, num_allocations=12, num_frees=11, num_frees_without_allocation=0,
        freed_without_allocation_bytes=0, num_unfreed=1, num_breaks=0, before_bytes=500, end_bytes=1000, peak=peak,
        peak_reserved_bytes=5_000_000,
        timeline=(MemoryPoint(ts_ns=10, allocated_bytes=4_000_000, reserved_bytes=None),), lifetimes=None,
        steps=(StepMemory(number=3, peak_bytes=4_000_000, end_bytes=1000, truncated=False),), growth=growth,
        fragmentation=None, num_retries=None, retries=None, out_of_memory=None,
    )  # fmt: skip
    return MemoryReport(
        source="a.json", kind="trace", rank=1, devices=(device,), notes=("Say what lacks.",), findings=()
    )


def test_text(memory: MemoryReport) -> None:
    lines = render(memory, "text", width=100).splitlines()
    assert lines[:2] == ["a.json", "trace, rank 1, 1 device, 12 allocations"]
    assert "CUDA 0: peak 4.0 MB allocated of 5.0 MB reserved; 75 % activation; 75 % from" in " ".join(lines)
    assert any("Alive at the end of a step: 1.0 kB more each step, from step 1 to 4." in line for line in lines)
    assert any("1.0 MB of the peak belong to no allocation that was recorded." in line for line in lines)
    assert any("1 allocation of the recording was not freed in it." in line for line in lines)
    assert all(line.isprintable() and len(line) <= 100 for line in lines)


def test_pages(memory: MemoryReport) -> None:
    page = render(memory, "html")
    assert "<script" not in page
    assert "&lt;script&gt;" in page
    assert render(memory, "markdown").startswith("# a.json\n")


def test_csv_has_every_number_once(memory: MemoryReport) -> None:
    rows = list(csv.DictReader(io.StringIO(render(memory, "csv"))))
    found = {(r["section"], r["subject"][:6], r["metric"]): r["value"] for r in rows}
    assert len(found) == len(rows)
    assert found["peak", "", "allocated_bytes"] == "4000000"
    assert found["growth", "", "bytes_per_step"] == "1000"
    assert not [value for row in rows for value in row.values() if value.startswith(("=", "\x1b"))]


def test_the_section_of_a_trace_s_report(memory: MemoryReport, report) -> None:
    with_memory = replace(report, memory=memory)
    assert "Peak 4.0 MB allocated" in text.render(with_memory, width=100)
    assert "Peak 4.0 MB allocated" in html.render(with_memory)
    assert "<script>alert" not in html.render(with_memory)
    assert "Peak 4.0 MB allocated" in markdown.render(with_memory)
    assert "Peak 4.0 MB" not in text.render(with_memory, only={"ops"})
    assert "Peak 4.0 MB" not in text.render(report)


def test_without_devices_there_are_notes(memory: MemoryReport) -> None:
    (section,) = memory_sections(replace(memory, devices=()))
    assert section.notes == ("Say what lacks.",)
    assert document(replace(memory, devices=())).verdict is None


def test_what_only_changes_tell_is_called_so(memory: MemoryReport) -> None:
    peak = replace(memory.devices[0].peak, reserved_bytes=None)
    device = replace(memory.devices[0], deltas_only=True, before_bytes=None, num_unfreed=None, peak=peak)
    out = " ".join(render(replace(memory, devices=(device,)), "text", width=100).split())
    assert "CUDA 0: peak 4.0 MB above the recording's start; 75 % activation" in out
    assert "Peak 4.0 MB above the recording's start" in out
    assert "Memory by step, above the recording's start" in out
    assert "were alive before" not in out
