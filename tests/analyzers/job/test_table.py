"""Bandwidths, fabrics, groups' roles, redistributions: against values worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from profsuite.analyzers.job.fabrics import BY_NAME, FABRICS, bus_factor, fabric_of
from profsuite.analyzers.job.groups import role_of, stride_of
from profsuite.analyzers.job.report import analyze_summaries
from profsuite.analyzers.transfer_model import transfer_model


@pytest.mark.parametrize(
    ("kind", "factor"),
    [("all_reduce", 1.75), ("all_gather", 0.875), ("reduce_scatter", 0.875), ("all_to_all", 0.875), ("broadcast", 1),
     ("reduce", 1), ("send", 1), ("barrier", None), ("unknown", None)],
)  # fmt: skip
def test_bus_factors_of_eight_ranks(kind, factor):
    assert bus_factor(kind, 8) == factor


def test_bandwidths_by_hand(ranks):
    # 40 MB in 1 ms: 40 GB/s, on the bus x 2 x 3/4; rank 0 arrives early, so its duration does not count
    job = ranks(4)
    for rank in range(4):
        early = 500 if rank == 0 else 0
        job.add(rank, 1000 - early, 1000 + early, seq=1, nelems=10_000_000)
    row = analyze_summaries(job.summaries(), "ib-ndr").collectives[0]
    assert (row.kind, row.num_ranks, row.count, row.num_bytes) == ("all_reduce", 4, 1, 40_000_000)
    assert (row.transfer_ns, row.skew_ns) == (1_000_000, 500_000)
    assert row.alg_gb_per_s == pytest.approx(40)
    assert row.bus_gb_per_s == pytest.approx(60)
    assert (row.fabric, row.fabric_pct) == ("ib-ndr", None)  # 60 of 50 GB/s: more than it can carry
    assert analyze_summaries(job.summaries(), "nvlink3").collectives[0].fabric_pct == pytest.approx(20)
    assert analyze_summaries(job.summaries()).collectives[0].fabric is None


def test_fabric_is_told_only_of_one_host():
    h100 = "NVIDIA H100 80GB HBM3"
    assert fabric_of([h100, h100], ["a", "a"]) is BY_NAME["nvlink4"]
    assert fabric_of([h100, h100], ["a", "b"]) is None
    assert fabric_of([h100, h100], [None, None]) is None
    assert fabric_of(["NVIDIA H100 PCIe"] * 2, ["a", "a"]) is None
    assert fabric_of(["NVIDIA A100-SXM4-80GB"] * 2, ["a", "a"]) is BY_NAME["nvlink3"]
    assert fabric_of(["Tesla V100-SXM2-32GB"] * 2, ["a", "a"]) is BY_NAME["nvlink2"]
    assert fabric_of(["AMD Instinct MI300X"] * 2, ["a", "a"]) is BY_NAME["xgmi-mi300x"]
    assert fabric_of(["AMD Instinct MI355X"] * 2, ["a", "a"]) is BY_NAME["xgmi-mi350"]
    assert fabric_of(["NVIDIA H200 NVL"] * 2, ["a", "a"]) is None  # bridges join two or four cards


def test_every_fabric_has_a_source():
    assert all(fabric.source and fabric.gb_per_s > 0 for fabric in FABRICS)
    assert len(BY_NAME) == len(FABRICS)


@pytest.mark.parametrize(
    ("name", "lanes", "gbit_per_s", "payload"),
    [
        # Links (lanes) of a device, what one sends, Gb/s, and the share that its code leaves.
        ("nvlink2", 6, 200, 1),
        ("nvlink3", 12, 200, 1),
        ("nvlink4", 18, 200, 1),
        ("nvlink5", 18, 400, 1),
        ("pcie3", 16, 8, 128 / 130),
        ("pcie4", 16, 16, 128 / 130),
        ("pcie5", 16, 32, 128 / 130),
        ("ib-edr", 4, 25, 1),
        ("ib-hdr", 4, 50, 1),
        ("ib-ndr", 4, 100, 1),
        ("ib-xdr", 4, 200, 1),
        ("xgmi-mi210", 3, 16 * 25, 1),
        ("xgmi-mi300x", 7, 16 * 32, 1),
        ("xgmi-mi350", 7, 16 * 38.4, 1),
    ],
)
def test_fabrics_are_lanes_times_their_rate_in_one_direction(name, lanes, gbit_per_s, payload):
    assert BY_NAME[name].gb_per_s == pytest.approx(lanes * gbit_per_s * payload / 8, rel=1e-3)


def test_transfer_model_recovers_what_made_the_times():
    sizes = np.array([4_000, 4_000, 100_000, 2_000_000])
    dur = 25_000 + sizes / 50  # 25 us and 50 GB/s
    dur[0] += 90_000  # waited for somebody
    model = transfer_model(sizes, dur.astype(np.int64))
    assert model.latency_ns == pytest.approx(25_000, rel=1e-6)
    assert model.bandwidth_gb_per_s == pytest.approx(50, rel=1e-6)
    assert model.bytes_at_90_pct == pytest.approx(9 * 25_000 * 50, rel=1e-6)
    assert model.num_sizes == 3


@pytest.mark.parametrize(("sizes", "dur"), [([4000, 4000], [9, 9]), ([4000, 5000], [9, 10]), ([10, 1000], [50, 40])])
def test_no_transfer_model_from_what_tells_nothing(sizes, dur):
    assert transfer_model(np.array(sizes), np.array(dur)) is None


@pytest.mark.parametrize(
    ("description", "kinds", "p2p", "ddp", "fsdp", "role"),
    [
        ("mesh_tp", ["all_reduce"], False, False, False, "tensor"),
        ("TENSOR_MODEL_PARALLEL_GROUP", ["all_gather"], False, False, False, "tensor"),
        ("DATA_PARALLEL_GROUP", ["all_reduce"], False, False, False, "data"),
        ("mesh_dp_shard", ["all_gather"], False, False, False, "sharded_data"),
        ("mesh_dp_replicate", ["all_reduce"], False, False, False, "data"),
        ("PIPELINE_MODEL_PARALLEL_GROUP", ["send"], False, False, False, "pipeline"),
        ("mesh_pp", ["send"], False, False, False, "pipeline"),
        ("mesh_ep", ["all_to_all"], False, False, False, "expert"),
        ("mesh_cp", ["all_gather"], False, False, False, "context"),
        ("undefined", ["send", "recv"], True, False, False, "pipeline"),
        ("default_pg", ["all_reduce", "broadcast"], False, True, False, "data"),
        ("default_pg", ["all_gather", "reduce_scatter"], False, False, True, "sharded_data"),
        ("default_pg", ["all_reduce"], False, False, False, "unknown"),
        ("default_pg", ["all_reduce", "all_gather"], False, True, False, "unknown"),
        ("default_pg", ["all_to_all"], False, True, False, "unknown"),
        ("undefined", ["send_recv"], False, False, False, "unknown"),
        (None, ["all_gather", "reduce_scatter"], False, True, True, "unknown"),
    ],
)
def test_roles_of_groups(description, kinds, p2p, ddp, fsdp, role):
    assert role_of(description, kinds, p2p, ddp, fsdp)[0] == role


def test_strides():
    assert [stride_of(r) for r in ((0, 1, 2), (1, 9, 17), (0, 1, 3), (4,), None)] == [1, 8, None, None, None]


def test_groups_of_a_job(ranks):
    job = ranks(4)
    for rank in range(4):
        tensor = [0, 1] if rank < 2 else [2, 3]
        data = [0, 2] if rank % 2 == 0 else [1, 3]
        job.add(rank, 100, 10, seq=1, members=tensor, group=f"t{tensor[0]}", description="mesh_tp")
        job.add(rank, 200, 10, seq=1, members=data, group=f"d{data[0]}", description="mesh_dp")
    groups = analyze_summaries(job.summaries()).groups
    assert {(g.ranks, g.stride, g.role, g.basis) for g in groups} == {
        ((0, 1), 1, "tensor", "description"),
        ((2, 3), 1, "tensor", "description"),
        ((0, 2), 2, "data", "description"),
        ((1, 3), 2, "data", "description"),
    }


def test_redistributions_by_line(ranks):
    job = ranks(2)
    for rank in (0, 1):
        one = job[rank].python("train.py(9): step", 0, 300)
        one.python("torch/distributed/tensor/_api.py(500): redistribute", 5, 290)
        for i in range(rank + 1):
            one.op("_c10d_functional::all_gather_into_tensor", 10 + 100 * i, 50).launch(20 + 100 * i, 5, 1 + i)
            one.kernel(40 + 100 * i, 10, 1 + i, name="ncclDevKernel_AllGather", stream=20, device=rank)
    found = analyze_summaries(job.summaries()).redistributions
    assert [(r.source, r.kind, r.count, r.exposed_ns) for r in found] == [
        ("train.py(9): step", "all_gather", 2, 20_000)
    ]


def test_exposed_by_what_it_waited_for(ranks):
    job = ranks(2)
    job.add(0, 100, 60, seq=1).add(1, 140, 20, seq=1)
    row = analyze_summaries(job.summaries()).collectives[0]
    assert (row.exposed_ns, row.exposed_wait_ns, row.waits_for) == (80_000, 40_000, 1)
