"""One rank's collectives: kinds, sizes, groups, what is exposed of each."""

from __future__ import annotations

import json

import numpy as np
import pytest

from profsuite.analyzers.analysis import Analysis
from profsuite.analyzers.collectives import KINDS, NONE, Group, dtype_bytes, kind_of, parse_ranks

ALL_REDUCE = {
    "Collective name": "allreduce",
    "In msg nelems": 1000,
    "Out msg nelems": 1000,
    "dtype": "BFloat16",
    "Process Group Name": "5",
    "Process Group Description": "mesh_dp",
    "Process Group Ranks": "[0, 2]",
    "Seq": 7,
}


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("allreduce", "all_reduce"),
        ("allreduce_coalesced", "all_reduce"),
        ("_allgather_base", "all_gather"),
        ("allgather_into_tensor_coalesced", "all_gather"),
        ("_reduce_scatter_base", "reduce_scatter"),
        ("all_to_allv", "all_to_all"),
        ("broadcast", "broadcast"),
        ("reduce", "reduce"),
        ("barrier", "barrier"),
        ("send", "send"),
        ("gloo:all_reduce", "all_reduce"),
        ("nccl:_all_gather_base", "all_gather"),
        ("ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclDevComm*, unsigned long, ncclWork*)", "send_recv"),
        ("ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)", "all_reduce"),
        ("ncclDevKernel_ReduceScatter_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)", "reduce_scatter"),
        ("ncclDevKernel_Generic_1(ncclDevKernelArgsStorage<4096ul>)", "unknown"),
        ("void (anonymous namespace)::multimem_all_reduce_kernel<c10::BFloat16, 16>(int)", "all_reduce"),
        ("aiter::cross_device_reduce_2stage<bf16,8,false>", "all_reduce"),
    ],
)
def test_kinds_by_name(name, kind):
    assert kind_of(name) == kind


def test_bytes_of_elements():
    assert [dtype_bytes(d) for d in ("BFloat16", "Float", "Long", "Float8_e4m3fn", "c10::Half", "Quaternion")] == [
        2, 4, 8, 1, 2, None,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "ranks"),
    [("[0, 1, 2]", (0, 1, 2)), ("[0, 1, ..., 63]", None), ("[]", None), ("[-1]", None), ("[true]", None), ("{", None)],
)
def test_ranks_of_groups(text, ranks):
    assert parse_ranks(text) == ranks


def test_what_a_kernel_says_of_itself(job):
    job.step(3, 0, 200).launch(10, 5, 1).kernel(50, 100, 1, "ncclDevKernel_AllReduce", 20, **ALL_REDUCE)
    c = Analysis(job.trace()).collectives
    assert c.on_device
    assert (KINDS[c.kind[0]], c.num_bytes[0], c.sequence[0], c.step[0]) == ("all_reduce", 2000, 7, 3)
    assert c.groups == (Group("5", "mesh_dp", (0, 2)),)
    assert (c.start[0], c.end[0], c.launched[0], c.previous_end[0]) == (50_000, 150_000, 15_000, NONE)


def test_what_only_the_launching_op_says(job):
    job.op("record_param_comms", 0, 30, **ALL_REDUCE).launch(10, 5, 1).kernel(50, 100, 1, "ncclDevKernel_Generic", 20)
    c = Analysis(job.trace()).collectives
    assert (KINDS[c.kind[0]], c.num_bytes[0], c.sequence[0]) == ("all_reduce", 2000, 7)
    assert c.groups[c.group[0]].ranks == (0, 2)


def test_a_shortened_list_of_ranks_is_looked_up_in_the_header(job):
    job.header = {"distributedInfo": {"rank": 0, "pg_config": [{"pg_name": "5", "ranks": [0, 2, 4]}]}}
    job.kernel(0, 10, name="ncclDevKernel_AllReduce", **ALL_REDUCE | {"Process Group Ranks": "[0, 2, ...]"})
    assert Analysis(job.trace()).collectives.groups == (Group("5", "mesh_dp", (0, 2, 4)),)


def test_what_is_not_known_is_not_zero(job):
    job.kernel(0, 10, name="ncclDevKernel_AllReduce")
    c = Analysis(job.trace()).collectives
    assert [c.num_bytes[0], c.sequence[0], c.step[0], c.launched[0]] == [NONE] * 4
    assert (c.group[0], c.dtype[0], c.source[0]) == (-1, -1, -1)


def test_exposed_parts_sum_to_the_union(job):
    # comm 0-100 and 50-150 on two streams, compute 20-70: exposed 0-20 and 70-150
    job.kernel(0, 100, name="ncclDevKernel_AllReduce", stream=20)
    job.kernel(50, 100, name="ncclDevKernel_AllGather", stream=21)
    job.kernel(20, 50, name="gemm", stream=7)
    analysis = Analysis(job.trace())
    assert analysis.collectives.exposed_ns.tolist() == [50_000, 50_000]
    assert analysis.device.shares.exposed_comm_ns == 100_000
    assert analysis.collectives.stream.tolist() == [0, 1]


def test_gloo_is_told_by_its_marks(job):
    job.op("c10d::allreduce_", 0, 10).slice("user_annotation", "gloo:all_reduce", 5, 60, 2).op("aten::mm", 20, 30)
    c = Analysis(job.trace()).collectives
    assert not c.on_device
    assert (c.start.tolist(), c.end.tolist()) == ([5_000], [65_000])
    assert c.exposed_ns.tolist() == [30_000]


def test_gloo_s_calls_tell_what_its_marks_do_not(job):
    for at, seq in ((0, 4), (100, 5)):
        job.op("c10d::allreduce_", at, 10, **ALL_REDUCE | {"Seq": seq})
        job.slice("user_annotation", "gloo:all_reduce", at + 5, 60, 2)
        # the flight recorder has them once more
        job.slice("flight_recorder", "gloo:all_reduce", at, 0, 9, **ALL_REDUCE | {"Seq": 90 + seq})
    job.slice("user_annotation", "gloo:broadcast", 300, 5, 2)
    c = Analysis(job.trace()).collectives
    assert c.sequence.tolist() == [4, 5, NONE]
    assert c.num_bytes.tolist() == [2000, 2000, NONE]


def test_marks_of_nccl_only_say_that_it_was_enqueued(job):
    job.mark("nccl:all_reduce", 0, 10).op("aten::mm", 20, 30)
    assert len(Analysis(job.trace()).collectives) == 0


def test_the_users_line_and_dtensors(job):
    job.python("train.py(9): step", 0, 100).python(
        "torch/distributed/tensor/_redistribute.py(210): redistribute", 5, 90
    )
    job.op("_c10d_functional::all_gather_into_tensor", 10, 50).launch(20, 5, 1)
    job.kernel(40, 10, 1, name="ncclDevKernel_AllGather")
    job.python("model.py(3): forward", 200, 50).op("c10d::allreduce_", 205, 40).launch(210, 5, 2)
    job.kernel(220, 10, 2, name="ncclDevKernel_AllReduce")
    c = Analysis(job.trace()).collectives
    assert [c.sources[s] for s in c.source] == ["train.py(9): step", "model.py(3): forward"]
    assert c.redistribution.tolist() == [True, False]


@pytest.mark.parametrize(
    "name",
    ["dlrm_8ranks/worker3.pt.trace.json.gz", "a100_nccl_metadata.json.gz", "b200_eager_stacks.json.gz",
     "v100_resnet50_workers0.json.gz"],
)  # fmt: skip
def test_real_files(real_trace, name):
    analysis = Analysis(real_trace(name))
    c = analysis.collectives
    assert len(c) == analysis.device.num_comm
    assert int(c.exposed_ns.sum()) == analysis.device.shares.exposed_comm_ns
    assert (np.diff(c.start) >= 0).all()


def test_sizes_in_a_real_file(real_trace):
    trace = real_trace("a100_nccl_metadata.json.gz")
    c = Analysis(trace).collectives
    rows = {r["slice_id"]: r for r in trace.table("collective").to_pylist()}
    width = {"Float": 4, "Byte": 1, "Long": 8, "Int": 4, "Char": 1}
    expected = [rows[i]["in_nelems"] * width[rows[i]["dtype"]] for i in c.slice_ids.tolist()]
    assert c.num_bytes.tolist() == expected
    assert json.loads(rows[int(c.slice_ids[0])]["group_ranks"]) == list(c.groups[c.group[0]].ranks)
