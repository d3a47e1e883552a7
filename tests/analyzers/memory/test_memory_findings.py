"""Findings on memory: for each kind a case where it fires and one where it must not."""

from __future__ import annotations

from profsuite.analyzers.analysis import Analysis
from profsuite.analyzers.findings import MEMORY_RULES, findings, memory_findings
from profsuite.analyzers.memory.snapshot import snapshot_memory


def in_trace(trace, kind):
    return next((f for f in findings(Analysis(trace)) if f.id == kind), None)


def in_snapshot(allocator, folder, kind):
    report = snapshot_memory(allocator.snapshot(folder))
    return next((f for f in memory_findings(report) if f.id == kind), None)


def value(finding, label):
    return next(e.value for e in finding.evidence if e.label == label)


def steps(job, ends):
    alive = 0
    for number, end in enumerate(ends):
        job.step(number, 1000 * number, 1000).python("train.py(9): main", 1000 * number + 10, 900)
        job.op("aten::add", 1000 * number + 100, 100)
        if end > alive:
            job.memory(1000 * number + 150, end - alive, 0x1000 + number)
            alive = end
    return job


def test_growth(job):
    finding = in_trace(steps(job, [1000, 1100, 1200, 1300]).trace(), "memory_growth")
    assert (finding.severity, value(finding, "growth"), finding.where.step) == ("critical", 100, 1)
    assert (finding.where.op, finding.where.source) == ("aten::add", "train.py(9): main")
    assert "item()" in finding.remedy


def test_growth_not_where_a_step_does_not_grow(job):
    assert in_trace(steps(job, [1000, 1100, 1200, 1200, 1300]).trace(), "memory_growth") is None


def test_growth_not_of_a_few_bytes(job):
    assert in_trace(steps(job, [10**6, 10**6 + 4, 10**6 + 8, 10**6 + 12]).trace(), "memory_growth") is None


def transient(job, size):
    """1,000 bytes that stay, and one allocation of ``size`` that comes and goes in its op."""
    job.op("aten::empty", 0, 10).memory(5, 1000, 0x1)
    return job.op("aten::softmax", 100, 100).memory(110, size, 0x2).memory(150, -size, 0x2)


def test_transient_peak(job):
    finding = in_trace(transient(job, 900).trace(), "memory_peak_transient")
    assert (finding.severity, finding.where.op) == ("warning", "aten::softmax")
    assert (value(finding, "the allocation"), value(finding, "the peak without it")) == (900, 1000)
    assert (value(finding, "it lives for"), value(finding, "category")) == (40_000, "temporary")


def test_transient_peak_not_if_small(job):
    assert in_trace(transient(job, 90).trace(), "memory_peak_transient") is None


def test_transient_peak_not_if_another_is_as_high(job):
    transient(job, 900).op("aten::mm", 300, 100).memory(310, 900, 0x3).memory(320, -900, 0x3)
    assert in_trace(job.trace(), "memory_peak_transient") is None


def test_transient_peak_of_every_step(job):
    """What makes the peak of each step alike: without it that step's peak is lower, whatever the other steps do."""
    for number in range(3):
        at = 1000 * number
        job.step(number, at, 1000).op("aten::log_softmax", at + 100, 10).memory(at + 105, 3000, 0x2)
        job.op("aten::mm", at + 200, 10).memory(at + 201, 1000, 0x3)
        job.op("aten::sum", at + 300, 10).memory(at + 301, -1000, 0x3).memory(at + 302, -3000, 0x2)
    finding = in_trace(job.trace(), "memory_peak_transient")
    assert (finding.where.op, finding.where.step, finding.where.start_ns) == ("aten::log_softmax", 0, 105_000)
    assert value(finding, "the peak without it") == 1000


def test_transient_peak_not_of_what_stays(job):
    job.op("aten::empty", 0, 10).memory(5, 1000, 0x1).op("aten::empty", 20, 10).memory(25, 9000, 0x2)
    assert in_trace(job.trace(), "memory_peak_transient") is None


def test_fragmentation(allocator, tmp_path):
    finding = in_snapshot(allocator.segment(0x1000, *[(512, 512), (512, None)] * 8), tmp_path, "memory_fragmentation")
    assert (finding.severity, value(finding, "fragmentation")) == ("critical", 87.5)
    assert "expandable_segments:True" in finding.remedy


def test_fragmentation_of_expandable_segments_has_another_remedy(allocator, tmp_path):
    allocator.segment(0x1000, *[(512, 512), (512, None)] * 8, expandable=True)
    assert "expandable already" in in_snapshot(allocator, tmp_path, "memory_fragmentation").remedy


def test_fragmentation_not_of_one_large_free_block(allocator, tmp_path):
    allocator.segment(0x1000, (512, 512), (9 * 512, None))
    assert in_snapshot(allocator, tmp_path, "memory_fragmentation") is None


def test_fragmentation_not_of_segments_that_are_free(allocator, tmp_path):
    for number in range(8):
        allocator.segment(0x10000 * number, (4096, None))
    assert in_snapshot(allocator, tmp_path, "memory_fragmentation") is None


def test_retries(allocator, tmp_path):
    allocator.give(0x1, 100).take(0x2, 80).alloc(0x2, 80).give(0x3, 300).give(0x4, 50).take(0x5, 90)
    finding = in_snapshot(allocator, tmp_path, "allocator_retries")
    assert (value(finding, "retries"), value(finding, "given back by the largest")) == (2, 350)
    assert (finding.where.device, finding.where.source, finding.where.start_ns) == (0, "model.py(7): forward", 3000)
    assert "twice" in finding.title


def test_retries_not_of_empty_cache(allocator, tmp_path):
    allocator.give(0x1, 100, allocator.EMPTY).take(0x2, 80)
    assert in_snapshot(allocator, tmp_path, "allocator_retries") is None


def test_out_of_memory(allocator, tmp_path):
    allocator.take(0x1000, 4096).alloc(0x1000, 3000).fail(5000, free=10, frames=allocator.LOSS)
    finding = in_snapshot(allocator.segment(0x1000, (3072, 3000), (1024, None)), tmp_path, "out_of_memory")
    assert (finding.severity, finding.where.source) == ("critical", "loss.py(3): loss")
    assert [value(finding, label) for label in ("wanted", "allocated then", "reserved then")] == [5000, 3000, 4096]
    assert (value(finding, "cached and not in use"), value(finding, "free on the device")) == (1096, 10)
    assert "Lower the peak" in finding.remedy


def test_out_of_memory_beside_enough_that_is_free(allocator, tmp_path):
    allocator.take(0x1000, 4096).fail(1000)
    assert "too small" in in_snapshot(allocator.segment(0x1000, (4096, None)), tmp_path, "out_of_memory").remedy


def test_no_failure_no_finding(allocator, tmp_path):
    assert in_snapshot(allocator.alloc(0x1, 10), tmp_path, "out_of_memory") is None


def test_no_memory_no_findings(job):
    trace = job.op("aten::mm", 0, 10).trace()
    assert not [found for rule in MEMORY_RULES for found in rule(Analysis(trace))]
