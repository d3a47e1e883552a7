"""A report with every section filled, and one with nothing to say; both by hand."""

from __future__ import annotations

import msgspec
import pytest

from profsuite.analyzers.attained import Attained
from profsuite.analyzers.attention import AttentionRow, AttentionTable, Refusal
from profsuite.analyzers.base import Evidence, Finding, Place
from profsuite.analyzers.breakdown import DeviceBreakdown, StepShares, TimeShares
from profsuite.analyzers.costs.peaks import DevicePeaks
from profsuite.analyzers.host import HostBreakdown, HostShares, StepHostShares, ThreadBreakdown
from profsuite.analyzers.idle import Gap, HostSplit, IdleBreakdown, IdleCause
from profsuite.analyzers.kernels import KernelRow, KernelTable, LaunchShape
from profsuite.analyzers.ops import OpRow, OpTable
from profsuite.analyzers.report import REPORT_VERSION, DeviceFacts, HealthRow, Report, TraceFacts
from profsuite.analyzers.roofline import Roofline, RooflineOp
from profsuite.analyzers.roofline_kernels import RooflineKernel
from profsuite.analyzers.sparse import SparseRow, SparseTable
from profsuite.analyzers.steps import StepRow, StepSummary

MS = 1_000_000

HOSTILE = "\x1b[31mevil\x1b[0m\x07 <script>alert(1)</script> [bold]|`x`@you \u202egnp\n=1+1"

GEMM = (
    "void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_256x128_32x3_tn_align8>"
    "(cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_256x128_32x3_tn_align8::Params)"
)
ELEMENTWISE = (
    "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, std::array<char*, 3ul> >"
    "(int, at::native::CUDAFunctor_add<float>, std::array<char*, 3ul>)"
)


def shares(compute: int, comm: int, memcpy: int, idle: int) -> TimeShares:
    """Device time in ms; half of the communication that compute covers is as long as the exposed part."""
    window = compute + comm + memcpy + idle
    return TimeShares(
        compute_ns=compute * MS,
        exposed_comm_ns=comm * MS,
        exposed_memcpy_ns=memcpy * MS,
        idle_ns=idle * MS,
        window_ns=window * MS,
        busy_ns=(window - idle) * MS,
        comm_ns=2 * comm * MS,
        overlapped_comm_ns=comm * MS,
        memcpy_ns=memcpy * MS,
        busy_pct=100 * (window - idle) / window,
        overlap_pct=50.0 if comm else None,
    )


def host_shares(**parts: int) -> HostShares:
    """Host time in ms; what is not named is 0."""
    values = {field: parts.get(field.removesuffix("_ns"), 0) * MS for field in HostShares.__struct_fields__}
    return HostShares(**(values | {"window_ns": sum(parts.values()) * MS}))


def kernel(name: str, total: int, occupancy: float | None = None) -> KernelRow:
    """A kernel of ten runs, ``total`` ms in all."""
    shape = LaunchShape(
        grid=(128, 1, 1),
        block=(256, 1, 1),
        registers_per_thread=64,
        shared_memory_bytes=0,
        blocks_per_sm=None,
        warps_per_sm=None,
        occupancy_pct=occupancy,
    )
    return KernelRow(
        name=name,
        kind="compute",
        count=10,
        total_ns=total * MS,
        mean_ns=total * MS / 10,
        min_ns=total * MS // 20,
        max_ns=total * MS // 5,
        std_ns=0.5,
        device_pct=total / 4,
        short_pct=0.0,
        occupancy_pct=occupancy,
        num_shapes=1,
        longest=shape,
        longest_slice_id=7,
        top_op="aten::mm",
    )


def op(name: str, total: int, input_dims: str | None = None) -> OpRow:
    """An op of 42 calls, ``total`` ms of device time in all."""
    return OpRow(
        name=name,
        input_dims=input_dims,
        count=42,
        host_total_ns=5 * MS,
        host_self_ns=3 * MS,
        device_total_ns=total * MS,
        device_self_ns=total * MS,
        num_kernels=42,
        host_self_pct=10.0,
        device_pct=total / 10,
        device_self_pct=total / 10,
    )


def attained(pct: float | None, beyond: bool = False) -> Attained:
    """A product in bf16 that reaches a share of its bound."""
    return Attained(
        flops=4 * 10**12,
        needed_flops=4 * 10**12,
        num_bytes=10**9,
        dtype="bf16",
        flops_per_s=4e14,
        bytes_per_s=1e11,
        intensity=4000.0,
        bound="compute",
        bound_ns=4.04 * MS,
        pct_of_roofline=pct,
        beyond=beyond,
    )


def costly(name: str, pct: float | None, beyond: bool = False) -> RooflineOp:
    """An op of 10 ms of device time."""
    return RooflineOp(
        name=name,
        input_dims="[[32, 1024], [1024, 1024], []]",
        input_types='["c10::BFloat16", "c10::BFloat16", "Scalar"]',
        direction="forward",
        kind="gemm",
        count=42,
        num_kernels=42,
        device_ns=10 * MS,
        device_pct=2.5,
        attained=attained(pct, beyond),
        matrix_units=False,
        could_use="bf16",
        main_kernel=GEMM,
        longest_slice_id=7,
    )


def roofline() -> Roofline:
    """Three ops: one far from its bound, one beyond it, one with a hostile name."""
    return Roofline(
        device="NVIDIA H100",
        peaks=DevicePeaks(
            name="H100 SXM",
            source="a data sheet",
            units=132,
            memory_bytes=80 * 10**9,
            bandwidth_bytes_per_s=3.35e12,
            flops_per_s={"bf16": 989.5e12},
        ),
        device_ns=400 * MS,
        coverage_pct=75.0,
        priced_pct=80.0,
        flops=12 * 10**12,
        forward_flops=4 * 10**12,
        backward_flops=8 * 10**12,
        flops_per_step=6e12,
        mfu_pct=1.2,
        unpriced_products_pct=0.0,
        launch_bound_pct=2.5,
        tail_loss_ns=5 * MS,
        matrix_units_pct=60.0,
        num_ops=20,
        ops=(costly("aten::mm", 40.4), costly("aten::bmm", None, beyond=True), costly(HOSTILE, 1.0)),
        kernels=(
            RooflineKernel(
                name=GEMM,
                op="aten::mm",
                count=42,
                total_ns=10 * MS,
                device_pct=2.5,
                attained=attained(40.4),
                matrix_units=True,
                waves=1.25,
                tail_loss_pct=37.5,
            ),
        ),
        note=HOSTILE,
    )


def attention_row(backend: str, *refused: Refusal) -> AttentionRow:
    """Ten calls of one backend, 20 ms in all."""
    return AttentionRow(
        backend=backend,  # type: ignore[arg-type]
        fused=False,
        op=HOSTILE,
        direction="forward",
        input_dims="[[2, 8, 128, 64]]",
        input_types=None,
        causal=True,
        masked=True,
        count=10,
        device_ns=20 * MS,
        device_pct=5.0,
        refused=refused,
        slice_id=3,
    )


def sparse_row(density: float | None) -> SparseRow:
    """A product that takes 10 ms."""
    return SparseRow(
        name=HOSTILE,
        input_dims="[[1000, 500], [500, 64]]",
        direction="forward",
        layout="sparse_csr",
        density_pct=density,
        count=1,
        device_ns=10 * MS,
        device_pct=2.5,
        effective_flops_per_s=1e9,
        dense_equivalent_flops_per_s=1e11,
        dense_ns=2.0 * MS,
        dense_basis="assumed",
        slice_id=None,
    )


@pytest.fixture
def report() -> Report:
    """Two steps of an input-bound job on one GPU, with hostile names in it."""
    loader = Finding(
        id="input_bound",
        title="The GPU waits for the data loader",
        severity="critical",
        evidence=(
            Evidence(label="idle for input", value=450 * MS, unit="ns", slice_ids=(12, 40)),
            Evidence(label="share of the window", value=45.0, unit="%"),
            Evidence(label="waits", value=2, unit="count"),
            Evidence(label="launches", value=1234.5, unit="per step"),
            Evidence(label="loader", value=HOSTILE),
        ),
        where=Place(rank=0, device=0, step=2, thread=HOSTILE, op="enumerate(DataLoader)", source="train.py(88): main"),
        remedy="Raise num_workers above 0 and set pin_memory=True.",
        cost_ns=450 * MS,
    )
    mild = msgspec.structs.replace(
        loader, id="short_kernels", title="Many short kernels", severity="info", cost_ns=None
    )
    thread = ThreadBreakdown(
        track_id=0,
        thread="main thread",
        num_slices=900,
        num_launches=84,
        shares=host_shares(input=450, op=200, python=150, launch=100, unrecorded=100),
        steps=(StepHostShares(number=2, truncated=False, shares=host_shares(input=225, op=275)),),
    )
    gap = Gap(
        start_ns=100,
        dur_ns=225 * MS,
        cause="input",
        next_slice_id=12,
        next_name=GEMM,
        next_op="aten::mm",
        blamed="enumerate(DataLoader)",
        stream=7,
        thread="main thread",
        step=2,
    )
    return Report(
        schema_version=REPORT_VERSION,
        source="runs/resnet.json.gz",
        rank=0,
        trace=TraceFacts(
            num_events=12_345,
            num_slices=10_000,
            num_bytes=5_000_000,
            duration_ns=1000 * MS,
            reader="c",
            world_size=8,
            backend="nccl",
            devices=(DeviceFacts(ordinal=0, name="NVIDIA H100", memory_bytes=85_000_000_000, num_sms=132),),
            selection=None,
        ),
        verdict="The GPU is idle for 50.0 % of the time, most of it waiting for input. Raise num_workers.",
        findings=(loader, mild),
        breakdown=(
            DeviceBreakdown(
                device=0,
                start_ns=100,
                num_compute=840,
                num_comm=10,
                num_memcpy=20,
                num_streams=2,
                shares=shares(400, 80, 20, 500),
                steps=(StepShares(number=2, start_ns=100, truncated=False, shares=shares(200, 40, 10, 250)),),
            ),
        ),
        idle=(
            IdleBreakdown(
                device=0,
                idle_ns=500 * MS,
                num_gaps=12,
                causes=(
                    IdleCause(cause="input", total_ns=450 * MS, num_gaps=2, idle_pct=90.0),
                    IdleCause(cause="host", total_ns=50 * MS, num_gaps=10, idle_pct=10.0),
                ),
                host=HostSplit(python_ns=20 * MS, op_ns=20 * MS, launch_ns=10 * MS),
                top_gaps=(gap,),
            ),
        ),
        host=HostBreakdown(
            start_ns=0,
            window_ns=1000 * MS,
            threads=(
                thread,
                msgspec.structs.replace(thread, thread=HOSTILE, shares=host_shares(op=100, unrecorded=900), steps=()),
            ),
        ),
        steps=StepSummary(
            count=2,
            num_used=1,
            mean_ns=500.0 * MS,
            std_ns=None,
            cv_pct=None,
            median_ns=500.0 * MS,
            min_ns=500 * MS,
            max_ns=500 * MS,
            outliers=(),
            steps=(
                StepRow(number=1, start_ns=0, dur_ns=400 * MS, excluded="cut off", outlier=False),
                StepRow(number=2, start_ns=400 * MS, dur_ns=500 * MS, excluded=None, outlier=False),
            ),
            note="Step 1 is cut off and left out.",
        ),
        ops=OpTable(
            num_ops=2,
            num_calls=84,
            sorted_by="device_self_ns",
            unattributed_device_ns=3 * MS,
            rows=(op("aten::mm", 300), op(HOSTILE, 100)),
            by_shape=(op("aten::mm", 300, "[[32, 1024], [1024, 1024]]"),),
        ),
        kernels=KernelTable(
            num_kernels=840,
            num_names=3,
            total_ns=400 * MS,
            num_short=400,
            short_pct=47.6,
            short_time_pct=2.5,
            from_graphs=0,
            rows=(kernel(GEMM, 300, 62.5), kernel(ELEMENTWISE, 80), kernel(HOSTILE, 20)),
        ),
        roofline=roofline(),
        attention=AttentionTable(
            num_calls=20,
            device_ns=40 * MS,
            device_pct=10.0,
            unfused_pct=50.0,
            rows=(
                attention_row(
                    "math",
                    Refusal(backend="flash", reasons=("a mask is given",), checked_by="rules", allowed=None),
                    Refusal(backend="efficient", reasons=(), checked_by="torch", allowed=True),
                ),
                attention_row("unfused"),
            ),
        ),
        sparse=SparseTable(num_calls=2, device_ns=20 * MS, device_pct=5.0, rows=(sparse_row(1.0), sparse_row(None))),
        memory=None,
        health=(HealthRow(kind="dropped", count=3, byte_offset=1_024, message=f"Not JSON: {HOSTILE}"),),
    )


@pytest.fixture
def bare() -> Report:
    """What is left of a report when a trace holds nothing, and most sections were not asked for."""
    facts = TraceFacts(
        num_events=0,
        num_slices=0,
        num_bytes=20,
        duration_ns=None,
        reader="python",
        world_size=None,
        backend=None,
        devices=(),
        selection=None,
    )
    return Report(
        schema_version=REPORT_VERSION,
        source="-",
        rank=None,
        trace=facts,
        verdict=None,
        findings=(),
        breakdown=(),
        idle=(),
        host=HostBreakdown(start_ns=None, window_ns=None, threads=()),
        steps=None,
        ops=None,
        kernels=None,
        roofline=None,
        attention=None,
        sparse=None,
        memory=None,
        health=None,
    )
