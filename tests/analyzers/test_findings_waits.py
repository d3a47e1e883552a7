"""Findings on waits and copies: which call the idle time belongs to, each with a trace where it must not fire."""

from __future__ import annotations

import numpy as np
import pytest

from profsuite.analyzers.analysis import Analysis
from profsuite.analyzers.findings import findings
from profsuite.analyzers.waits import Wait

WAITS = ("item_in_loop", "sync_in_loop", "pageable_h2d", "blocking_h2d")


def after_wait(job):
    """The device is busy until 300 us; work that is launched at 320 us, after a wait until 305 us, runs at 330 us."""
    return job.launch(320, 5, 9).kernel(330, 10, 9)


def kinds(trace):
    return {f.id for f in findings(Analysis(trace))} & set(WAITS)


def test_item_in_loop(job, found, value):
    job.busy().python("train.py(9): log", 150, 160).op("aten::item", 160, 145).op("aten::_local_scalar_dense", 161, 143)
    job.call("cudaStreamSynchronize", 162, 141)
    trace = after_wait(job).trace()
    finding = found(trace, "item_in_loop")
    assert finding.cost_ns == 30_000
    assert (finding.where.op, finding.where.source) == ("aten::item", "train.py(9): log")
    assert value(finding, "most wait in") == "aten::item"
    assert value(finding, "waits") == 1
    assert value(finding, "of them values or sizes (.item(), nonzero)") == 1
    assert kinds(trace) == {"item_in_loop"}


def test_item_in_loop_for_a_copy_to_the_host(job, found, value):
    job.busy().op("aten::to", 150, 156).op("aten::copy_", 151, 154).call("cudaMemcpyAsync", 152, 5, 8)
    job.memcpy(299, 1, 8, name="Memcpy DtoH (Device -> Pinned)").call("cudaStreamSynchronize", 160, 143)
    finding = found(after_wait(job).trace(), "item_in_loop")
    assert (finding.cost_ns, value(finding, "of them copies (.cpu(), print)")) == (30_000, 1)
    assert "non_blocking=True" in finding.remedy


def test_item_in_loop_advises_on_sizes(job, found):
    job.busy().op("aten::nonzero", 150, 155).call("cudaStreamSynchronize", 160, 143)
    assert "depends on values" in found(after_wait(job).trace(), "item_in_loop").remedy


def test_item_in_loop_not_for_the_wait_after_all_work(job, found):
    assert (
        found(job.busy().op("aten::item", 200, 110).call("cudaStreamSynchronize", 201, 108).trace(), "item_in_loop")
        is None
    )


def test_sync_in_loop(job, found):
    job.busy().python("train.py(12): timed", 150, 160).call("cudaDeviceSynchronize", 160, 145)
    trace = after_wait(job).trace()
    finding = found(trace, "sync_in_loop")
    assert (finding.cost_ns, finding.where.source) == (30_000, None)
    assert finding.where.op == "train.py(12): timed"
    assert kinds(trace) == {"sync_in_loop"}


def test_sync_in_loop_not_for_the_wait_after_all_work(job, found):
    assert found(job.busy().call("cudaDeviceSynchronize", 200, 110).trace(), "sync_in_loop") is None


def test_a_wait_inside_an_op_without_a_reason_is_of_the_loop(job):
    job.busy().op("aten::linalg_lu", 150, 156).call("cudaStreamSynchronize", 160, 145)
    assert kinds(after_wait(job).trace()) == {"sync_in_loop"}


def test_pageable_h2d(job, found, value):
    job.busy().op("aten::copy_", 150, 156).call("cudaMemcpyAsync", 152, 153, 8)
    job.memcpy(300, 20, 8, name="Memcpy HtoD (Pageable -> Device)", bytes=1_000_000)
    job.launch(320, 5, 9).kernel(330, 10, 9)
    trace = job.trace()
    finding = found(trace, "pageable_h2d")
    assert value(finding, "exposed on the device") == 20_000
    assert value(finding, "they move") == 1_000_000
    assert finding.where.op == "aten::copy_"
    assert "pin_memory" in finding.remedy
    assert kinds(trace) == {"pageable_h2d"}
    assert found(trace, "exposed_memcpy") is None


def test_pageable_h2d_counts_the_idle_time_that_its_wait_ends_in(job, found, value):
    job.busy().op("aten::copy_", 150, 156).call("cudaMemcpyAsync", 152, 5, 8).call("cudaStreamSynchronize", 160, 145)
    job.memcpy(300, 4, 8, name="Memcpy HtoD (Pageable -> Device)", bytes=4)
    finding = found(after_wait(job).trace(), "pageable_h2d")
    assert (finding.cost_ns, value(finding, "device idle after them")) == (4_000 + 26_000, 26_000)
    assert "small" in finding.remedy


def test_pageable_h2d_not_from_pinned_memory(job, found):
    job.busy().launch(10, 1, 9).memcpy(300, 20, 9)
    assert found(job.trace(), "pageable_h2d") is None


def test_blocking_h2d(job, found, value):
    job.busy().call("cudaMemcpyAsync", 10, 1, 9).memcpy(300, 20, 9, bytes=100)
    trace = job.trace()
    finding = found(trace, "blocking_h2d")
    assert (finding.cost_ns, value(finding, "copies on the compute stream")) == (20_000, 1)
    assert found(trace, "exposed_memcpy") is None


def test_blocking_h2d_for_a_copy_that_the_host_waits_for(job, found, value):
    job.busy().op("aten::copy_", 150, 156).call("cudaMemcpyAsync", 152, 5, 8).call("cudaStreamSynchronize", 160, 145)
    job.memcpy(300, 4, 8, stream=9)
    finding = found(after_wait(job).trace(), "blocking_h2d")
    assert (finding.cost_ns, value(finding, "copies that the host waited for")) == (26_000, 1)


def test_blocking_h2d_not_on_a_stream_of_its_own(job, found):
    trace = job.busy().call("cudaMemcpyAsync", 10, 1, 9).memcpy(300, 20, 9, stream=9).trace()
    assert found(trace, "blocking_h2d") is None
    finding = found(trace, "exposed_memcpy")
    assert finding.cost_ns == 20_000
    assert "start them earlier" in finding.remedy


def test_exposed_memcpy(job, found):
    job.busy().launch(10, 1, 9).memcpy(300, 20, 9, name="Memcpy DtoD (Device -> Device)")
    finding = found(job.trace(), "exposed_memcpy")
    assert finding.cost_ns == 20_000
    assert ".contiguous()" in finding.remedy


def test_exposed_memcpy_leaves_out_what_others_tell(job, found, value):
    job.busy().call("cudaMemcpyAsync", 10, 1, 9).memcpy(300, 20, 9).launch(12, 1, 10)
    job.memcpy(310, 30, 10, name="Memcpy DtoD (Device -> Device)", stream=9)
    trace = job.trace()
    assert found(trace, "blocking_h2d").cost_ns == 20_000
    assert (found(trace, "exposed_memcpy").cost_ns, value(found(trace, "exposed_memcpy"), "longest")) == (
        20_000,
        "Memcpy DtoD (Device -> Device)",
    )


def test_exposed_memcpy_not_where_compute_hides_it(job, found):
    job.busy().launch(10, 1, 9).memcpy(150, 20, 9, stream=9)
    assert found(job.trace(), "exposed_memcpy") is None


def test_host_round_trips(job, found, value):
    job.busy(10).op("aten::linalg_eigh", 600, 300).op("aten::copy_", 601, 20).call("cudaMemcpyAsync", 602, 5, 98)
    job.memcpy(610, 5, 98, name="Memcpy DtoH (Device -> Pageable)", bytes=8192)
    job.call("cudaMemcpyAsync", 880, 5, 99).memcpy(886, 5, 99, bytes=8192)
    finding = found(job.trace(), "host_round_trips")
    # From its start until the window ends with the last copy, at 891 us.
    assert (finding.cost_ns, finding.where.op) == (291_000, "aten::linalg_eigh")
    assert value(finding, "its calls") == 1


def test_host_round_trips_not_for_sizes_and_pointers(job, found):
    job.busy(10).op("aten::index", 600, 300).call("cudaMemcpyAsync", 602, 5, 98)
    job.memcpy(610, 5, 98, name="Memcpy DtoH (Device -> Pageable)", bytes=8)
    job.call("cudaMemcpyAsync", 880, 5, 99).memcpy(886, 5, 99, bytes=8192)
    assert found(job.trace(), "host_round_trips") is None


def test_cudnn_autotuning(job, found, value):
    job.busy(10).op("aten::cudnn_convolution", 100, 100).call("cudaEventSynchronize", 110, 50)
    job.call("cudaEventElapsedTime", 165, 1).launch(180, 5, 99).kernel(600, 10, 99)
    trace = job.trace()
    finding = found(trace, "cudnn_autotuning")
    assert (finding.cost_ns, value(finding, "calls that try algorithms")) == (100_000, 1)
    assert finding.where.op == "aten::cudnn_convolution"
    assert kinds(trace) == set()


def test_cudnn_autotuning_not_for_the_users_own_events(job, found):
    job.busy(10).call("cudaEventSynchronize", 110, 50).call("cudaEventElapsedTime", 165, 1).launch(180, 5, 99)
    assert found(job.kernel(600, 10, 99).trace(), "cudnn_autotuning") is None


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        # 24 calls of .item() and 36 copies of results, counted in the file: cudaStreamSynchronize under each op.
        ("diff_a100_control.json.gz", {Wait.VALUE: 24, Wait.TO_HOST: 36, Wait.FROM_PAGEABLE: 0, Wait.FROM_HOST: 0}),
        # 357 cudaEventSynchronize and one cudaMemcpy under convolutions.
        ("torch18_autograd_api.json.gz", {Wait.AUTOTUNING: 358}),
        # Five cudaDeviceSynchronize.
        ("simple_add_kineto.json.gz", {Wait.EXPLICIT: 5}),
    ],
)
def test_kinds_of_waits_in_real_traces(real_trace, name, expected):
    waits = Analysis(real_trace(name)).waits
    assert {kind: waits.number(np.flatnonzero(waits.kind == kind)) for kind in expected} == expected


def test_idle_time_after_waits_is_told_once(real_trace):
    for name in ("torch18_autograd_api.json.gz", "diff_a100_control.json.gz", "dlrm_8ranks/worker0.pt.trace.json.gz"):
        analysis = Analysis(real_trace(name))
        kinds = analysis.waits.kind[analysis.gaps.wait[analysis.gaps.wait >= 0]]
        assert (kinds != Wait.NONE).all()
        assert analysis.gaps.dur[analysis.gaps.wait >= 0].sum() == analysis.idle_ns("sync")


def waiting_steps(job, explicit):
    """Four steps of 1000 us: two kernels of 300 us, a wait after each, and 100 us until the next is launched."""
    for step in range(4):
        at = 1000 * step
        job.step(step, at, 1000)
        job.op("aten::mm", at, 10).launch(at + 2, 5, 10 + step).kernel(at + 100, 300, 10 + step)
        job.op("aten::item", at + 50, 360).call("cudaStreamSynchronize", at + 60, 345)
        job.op("aten::mm", at + 490, 10).launch(at + 492, 5, 20 + step).kernel(at + 500, 300, 20 + step)
        if explicit:
            job.call("cudaDeviceSynchronize", at + 600, 205)
    return job.trace()


def test_what_reading_values_costs_is_replayed_where_it_is_all_that_waits(job, found):
    trace = waiting_steps(job, explicit=False)
    finding = found(trace, "item_in_loop")
    assert finding.cost_ns == 4 * 100_000
    assert finding.saving_ms_per_step > 0


def test_what_reading_values_costs_is_not_replayed_with_other_waits(job, found):
    trace = waiting_steps(job, explicit=True)
    assert found(trace, "sync_in_loop").cost_ns > 0
    assert found(trace, "item_in_loop").saving_ms_per_step is None
