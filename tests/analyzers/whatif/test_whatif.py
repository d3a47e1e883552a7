"""Replays of jobs written by hand, each with the outcome worked out on paper; microseconds."""

from __future__ import annotations

import math

import numpy as np
import pytest

from profsuite.analyzers.analysis import Analysis
from profsuite.analyzers.whatif.edits import Edit, parse_scale
from profsuite.analyzers.whatif.hiding import latency_hiding
from profsuite.analyzers.whatif.path import critical_path, slack_ns, slice_slack
from profsuite.analyzers.whatif.replay import replay, times


def predicted_us(job, **edit):
    """(measured, predicted) length of a job, microseconds."""
    analysis = Analysis(job.trace())
    outcome = replay(analysis, analysis.graph, Edit(**edit))
    return outcome.measured_ns / 1e3, outcome.predicted_ns / 1e3


def parts(job):
    analysis = Analysis(job.trace())
    path = critical_path(analysis, analysis.graph)
    assert sum(part.total_ns for part in path.parts) == path.length_ns
    assert path.replay_error_ns == 0
    return {part.cause: part.total_ns / 1e3 for part in path.parts}


@pytest.fixture
def device_bound(job):
    """Three queued kernels of 100 us, 1 us apart; the host waits for them until 3 us after the last."""
    job.step(1, 0, 330)
    for number in range(3):
        job.launch(10 + 10 * number, 5, number + 1).kernel(15 + 101 * number, 100, number + 1)
    return job.call("cudaDeviceSynchronize", 40, 280)


@pytest.fixture
def host_bound(job):
    """Four kernels of 10 us, each 5 us after its launch; ops of 40 us, of which each launch takes 10."""
    job.step(1, 0, 200)
    for number in range(4):
        start = 50 * number
        job.op("aten::mm", start, 40).launch(start + 20, 10, number + 1).kernel(start + 25, 10, number + 1)
    return job


def test_faster_kernels_help_a_device_bound_job(device_bound):
    # 15 + 50 + 1 + 50 + 1 + 50 = 167, then 3 to return and 10 to the step's end.
    assert predicted_us(device_bound, scales=(("gemm", 0.5),)) == (330, 180)


def test_a_faster_host_does_not(device_bound):
    measured, predicted = predicted_us(device_bound, scales=(("python", 0.0), ("launch", 0.0)))
    # Only what comes before the first kernel (10 us of Python) and after the last (10 us).
    assert (measured, predicted) == (330, 310)


def test_faster_kernels_do_not_help_a_host_bound_job(host_bound):
    assert predicted_us(host_bound, scales=(("gemm", 0.0),)) == (200, 200)


def test_no_launch_overhead(host_bound):
    assert predicted_us(host_bound, no_launch_overhead=True) == (200, 160)


def test_ops_that_launched_nothing_are_scaled_on_the_host(job):
    job.step(1, 0, 100).op("aten::add", 10, 30).op("aten::mul", 50, 40)
    assert predicted_us(job, scales=(("aten::mul", 0.5),)) == (100, 80)
    assert predicted_us(job, scales=(("aten::*", 0.0),)) == (100, 30)


def test_an_op_means_its_kernels_and_host_means_the_host(host_bound):
    assert predicted_us(host_bound, scales=(("aten::mm", 0.0),)) == (200, 200)
    assert predicted_us(host_bound, scales=(("host:aten::mm", 0.25),)) == (200, 80)


def test_no_wait_for_input(job):
    job.step(1, 0, 100).mark("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 10, 50)
    assert predicted_us(job, no_input_wait=True) == (100, 50)


def test_no_wait_of_the_host(device_bound):
    # The host goes on at once, and ends at 50; the step lasts until its device work is done, at 317.
    assert predicted_us(device_bound, no_sync=True) == (330, 317)


def test_a_step_waits_for_its_backward_thread(job):
    job.step(1, 0, 130).op("aten::mm", 0, 10)
    job.op("autograd::engine::evaluate_function: MmBackward0", 20, 60, tid=2)
    job.op("aten::add_", 90, 40)
    assert predicted_us(job, scales=(("*MmBackward0", 0.5),)) == (130, 100)
    assert parts(job) == {"host_op": 110, "host_python": 10, "thread_wait": 10}


def test_what_runs_at_the_same_time_on_another_thread_does_not_delay(job):
    job.step(1, 0, 100)
    for start in range(0, 100, 10):
        job.op("aten::mm", start, 10)
    job.op("pin_memory", 20, 60, tid=2)
    assert predicted_us(job, scales=(("pin_memory", 0.0),)) == (100, 100)


@pytest.fixture
def data_parallel(job):
    """A kernel, a collective that waits for it, and an optimizer's kernel that waits for the collective."""
    job.step(1, 0, 300)
    job.op("aten::mm", 0, 10).launch(2, 5, 1).kernel(10, 100, 1)
    job.launch(20, 5, 2).kernel(112, 100, 2, name="ncclDevKernel_AllReduce_Sum_f32_RING_LL", stream=20)
    job.mark("Optimizer.step#SGD.step", 30, 20).launch(35, 5, 3).kernel(215, 20, 3, name="add_")
    return job.call("cudaDeviceSynchronize", 60, 180)


def test_no_communication(data_parallel):
    # The collective starts at 112 and takes nothing; the optimizer 3 us later, until 135; 5 to return, 60 to the end.
    assert predicted_us(data_parallel, no_comm=True) == (300, 200)


def test_faster_compute_pulls_the_collective_along(data_parallel):
    assert predicted_us(data_parallel, scales=(("gemm", 0.5),)) == (300, 250)


def test_the_path_through_the_streams(data_parallel):
    found = parts(data_parallel)
    assert found["compute"] == 120
    assert found["comm"] == 100
    # 2 from the kernel to the collective, 2 from there to the optimizer, whose third us nothing explains.
    assert found["dependency_wait"] == 4
    assert found["unknown"] == 1
    assert found["sync_return"] == 5


def test_what_a_late_launch_hides(job):
    """A collective of 50 us whose input is ready at 110, launched at 150 only, when compute ends."""
    job.launch(0, 5, 1).kernel(10, 100, 1)
    job.launch(6, 4, 2).kernel(111, 89, 2)
    job.op("record_param_comms", 140, 40).launch(195, 5, 3, tid=2)
    job.kernel(202, 50, 3, name="ncclDevKernel_AllReduce_Sum_f32_RING_LL", stream=20)
    analysis = Analysis(job.trace())
    hiding = latency_hiding(analysis, analysis.graph)
    # The work launched before it, which it waits for, ends at 200: nothing can be hidden.
    assert (hiding.exposed_ns, hiding.hideable_ns, hiding.remaining_ns) == (50_000, 0, 50_000)
    assert (hiding.num_collectives, hiding.num_known) == (1, 1)


def test_what_an_early_launch_would_hide(job):
    """The collective's input is ready at 60; launched at 190 it runs from 195, of which another stream hides 5 us."""
    job.launch(0, 2, 1).kernel(10, 190, 1, stream=8)
    job.launch(4, 2, 2).kernel(12, 48, 2)
    job.launch(190, 5, 3).kernel(195, 50, 3, name="ncclDevKernel_AllReduce_Sum_f32_RING_LL", stream=20)
    analysis = Analysis(job.trace())
    hiding = latency_hiding(analysis, analysis.graph)
    # From 62 on the other stream hides all of it.
    assert (hiding.exposed_ns, hiding.hideable_ns, hiding.remaining_ns) == (45_000, 45_000, 0)


def test_a_launch_that_takes_long_issues_at_its_end(job):
    """A call of 500 us that loads a module: its kernel follows the call, not the kernel before."""
    job.step(1, 0, 700).launch(0, 5, 1).kernel(10, 20, 1)
    job.launch(100, 500, 2).kernel(598, 20, 2, name="other")
    job.call("cudaDeviceSynchronize", 610, 20)
    found = parts(job)
    assert found["host_launch"] == 5 + 493  # the first call, and the second until 5 us before its kernel
    assert "unknown" not in found
    # The second kernel runs from 95 to 115, the wait for it ends 12 us later, the step 70 us after that.
    assert predicted_us(job, no_launch_overhead=True) == (700, 197)


def test_without_steps_the_first_thread_at_work_gives_the_others_theirs(job):
    """The backward thread launches most, but does so for the main thread."""
    job.op("aten::mm", 0, 100).launch(90, 5, 1).kernel(100, 10, 1)
    for number in range(3):
        job.op("MulBackward0", 120 + 30 * number, 20, tid=2)
        job.launch(125 + 30 * number, 5, 2 + number, tid=2).kernel(135 + 30 * number, 10, 2 + number)
    job.op("aten::add_", 220, 20)
    # Everything after the first op moves with it.
    assert predicted_us(job, scales=(("host:aten::mm", 0.5),)) == (240, 190)


def test_slack_is_what_a_hidden_kernel_may_take_longer(job):
    job.step(1, 0, 200)
    job.launch(0, 5, 1).kernel(5, 100, 1).launch(10, 5, 2).kernel(15, 30, 2, stream=8)
    job.call("cudaDeviceSynchronize", 20, 90)
    trace = job.trace()
    analysis = Analysis(trace)
    slack = slice_slack(analysis, analysis.graph)
    names = [trace.words("slice", "name")[code] for code in trace.array("slice", "name").tolist()]
    kernels = [row for row, name in enumerate(names) if name == "gemm"]
    assert slack[kernels[0]] == 0
    # Until the end of the step at 200: no one waits for it but that.
    assert slack[kernels[1]] == 155_000


def test_unlaunched_work_stays_where_it_was(job):
    job.kernel(100, 10).kernel(150, 10, stream=8)
    analysis = Analysis(job.trace())
    assert analysis.graph.length_ns == 60_000
    assert analysis.graph.num_anchored == 2


def test_nothing_recorded(job):
    assert Analysis(job.trace()).graph is None
    assert Analysis(job.trace()).replays is None


def test_a_pattern_that_matches_nothing(host_bound):
    with pytest.raises(ValueError, match="nothing in this trace matches 'attention'"):
        predicted_us(host_bound, scales=(("attention", 0.5),))


@pytest.mark.parametrize("text", ["gemm", "=2", "gemm=-1", "gemm=nan", "gemm=x", "gemm=inf"])
def test_a_scale_that_is_none(text):
    with pytest.raises(ValueError, match="0 or more" if text in ("gemm=-1", "gemm=inf") else "is no scale"):
        parse_scale(text)
    assert parse_scale("a=b=0.5") == ("a=b", 0.5)


@pytest.mark.parametrize(
    "name",
    [
        "a100_nccl_metadata.json.gz", "b200_eager_stacks.json.gz", "diff_a100_control.json.gz",
        "diff_v100_test.json.gz", "dlrm_8ranks/worker0.pt.trace.json.gz", "h100_bert_small.json.gz",
        "h100_qwen_0_5b.json.gz", "mi210_gpu_only.json.gz", "mi300_vllm_decode_graph.json.gz",
        "rtx2080ti_linear.json.gz", "torch18_autograd_api.json.gz", "v100_ns_resolution.json.gz",
        "v100_resnet50_workers0.json.gz", "ascend_rank0.json.gz", "cpu_only_gloo_rank34.json.gz",
    ],
)  # fmt: skip
def test_real_recordings_replay_to_the_nanosecond(real_trace, name):
    analysis = Analysis(real_trace(name))
    graph = analysis.graph
    np.testing.assert_array_equal(times(analysis, graph), graph.time)
    path = critical_path(analysis, graph)
    assert sum(part.total_ns for part in path.parts) == path.length_ns == graph.length_ns
    assert path.replay_error_ns == 0
    assert (slack_ns(graph) >= 0).all()
    # Few places have no cause at all: starts of threads and of streams.
    num_streams = sum(len(np.unique(work.streams)) for work in analysis.work)
    assert graph.num_anchored <= 2 + len(analysis.timelines.threads) + num_streams


def test_a_slower_part_never_makes_the_job_faster(real_trace):
    analysis = Analysis(real_trace("diff_a100_control.json.gz"))
    last = 0
    for factor in (0.0, 0.5, 1.0, 1.5, 3.0):
        outcome = replay(analysis, analysis.graph, Edit(scales=(("compute", factor), ("op", factor))))
        assert outcome.predicted_ns >= last
        last = outcome.predicted_ns
    assert replay(analysis, analysis.graph, Edit(scales=(("compute", 1.0), ("op", 1.0)))).saving_ns == 0


@pytest.fixture
def attention(job):
    """An annotated forward op, another one, and the backward of both: 30 us of the second, 40 of the first."""
    job.step(1, 0, 200).mark("attention", 10, 40)
    job.op("aten::bmm", 15, 20, **{"Sequence number": 5, "Fwd thread id": 0})
    job.op("aten::mm", 60, 20, **{"Sequence number": 6, "Fwd thread id": 0})
    for name, start, dur, number in (("Mm", 100, 30, 6), ("Bmm", 130, 40, 5)):
        job.op(
            f"autograd::engine::evaluate_function: {name}Backward0", start, dur,
            **{"Sequence number": number, "Fwd thread id": 1},
        )  # fmt: skip
    return job


def test_both_means_an_annotation_with_its_backward(attention):
    assert predicted_us(attention, scales=(("host:attention", 0.5),)) == (200, 180)
    assert predicted_us(attention, scales=(("both:attention", 0.5),)) == (200, 160)
    assert predicted_us(attention, scales=(("both:att*", 0.0),)) == (200, 120)
    with pytest.raises(ValueError, match="nothing in this trace matches 'both:norm'"):
        predicted_us(attention, scales=(("both:norm", 0.5),))


def test_both_means_the_kernels_where_there_are_some(attention):
    attention.launch(20, 5, 1).kernel(30, 10, 1).launch(140, 5, 2).kernel(150, 30, 2)
    attention.launch(65, 5, 3).kernel(70, 30, 3)
    attention.call("cudaDeviceSynchronize", 175, 10)
    # Half of the last kernel and it ends at 165 instead of 180; the call, from 175, takes 5 by itself instead of 10.
    measured, predicted = predicted_us(attention, scales=(("both:attention", 0.5),))
    assert (measured, predicted) == (200, 195)
    # The kernel of the other op is none of it: 150 us longer it ends at 250, the step with it.
    assert predicted_us(attention, scales=(("aten::mm", 6.0),))[1] > 200


def cold(us):
    """The share of a record's cost that is paid where the next one comes so much later."""
    return 1 - math.exp(-us / 3)


def test_what_recording_added_is_taken_off_by_how_cold_its_code_was(job):
    """Ten ops of 4 us, 1 us apart, then an annotation; a step of 100 us would be one of 80 without the recording."""
    job.step(1, 0, 100)
    for start in range(0, 50, 5):
        job.op("aten::add", start, 4)
    job.mark("rest", 60, 30)
    measured, predicted = predicted_us(job, bare_step_ns=80_000)
    assert (measured, predicted) == (pytest.approx(80, rel=1e-4), pytest.approx(80, rel=1e-4))
    # The step's start and ten of ops, 4 before what follows; nine ends of ops, 1 before; the last, 11 before; the
    # annotation's, 30 and 10.
    half = 20 / (11 * cold(4) + 9 * cold(1) + cold(11) + cold(30) + cold(10))
    _, predicted = predicted_us(job, bare_step_ns=80_000, scales=(("host:aten::add", 0.0),))
    assert predicted == pytest.approx(80 - (40 - 11 * half * cold(4)), abs=0.02)


def test_what_the_engine_names_costs_three_times_as_much(job):
    """Two ops of 10 us, the one the engine's; recording cost 12 us of the step's 100."""
    job.step(1, 0, 100).op("autograd::engine::evaluate_function: AddBackward0", 20, 10).op("aten::add", 50, 10)
    half = 12 / (cold(20) + 3 * cold(10) + 3 * cold(20) + cold(10) + cold(40))
    _, predicted = predicted_us(job, bare_step_ns=88_000, scales=(("host:autograd::engine::*", 0.0),))
    assert predicted == pytest.approx(88 - (10 - 3 * half * cold(10)), abs=0.02)


def test_a_recording_that_cost_nothing(job):
    job.step(1, 0, 100).op("aten::add", 10, 30)
    assert predicted_us(job, bare_step_ns=120_000, scales=(("aten::add", 0.0),)) == (100, 70)


def test_a_step_that_recording_does_not_explain(job):
    job.step(1, 0, 100).op("aten::add", 10, 80)
    with pytest.raises(ValueError, match=r"a step of 0\.01 ms is too short"):
        predicted_us(job, bare_step_ns=10_000)


def test_the_time_of_a_step_is_no_help_without_steps(job):
    job.op("aten::add", 10, 80)
    with pytest.raises(ValueError, match="no steps were recorded"):
        predicted_us(job, bare_step_ns=10_000)


def test_host_means_the_name_even_of_a_class(attention):
    with pytest.raises(ValueError, match="nothing in this trace matches 'host:gemm'"):
        predicted_us(attention, scales=(("host:gemm", 0.5),))


def test_without_launches_there_is_nothing_to_graph(job):
    job.step(0, 0, 100).op("aten::mm", 10, 60).step(1, 100, 100).op("aten::mm", 110, 60)
    analysis = Analysis(job.trace())
    for edit, why in (
        (Edit(graphs=True), "no device work is launched in this trace, so there is nothing for a graph to launch"),
        (Edit(no_launch_overhead=True), "no device work is launched in this trace"),
        (Edit(no_sync=True), "there is no device work in this trace"),
    ):
        with pytest.raises(ValueError, match=why):
            replay(analysis, analysis.graph, edit)
        assert analysis.saving_ms_per_step(edit) is None
    names = {scenario.name for scenario in analysis.replays.scenarios}
    assert names == {"Python at no cost"}
    assert all(s.saving_ns <= s.measured_ns for s in analysis.replays.scenarios)


def test_device_work_whose_launches_are_not_known_is_not_launched(job):
    job.op("aten::mm", 0, 100).kernel(10, 30)
    analysis = Analysis(job.trace())
    assert analysis.outcome(Edit(graphs=True)) is None
    assert analysis.outcome(Edit(no_sync=True)) is not None
