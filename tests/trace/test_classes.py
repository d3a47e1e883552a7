"""Every category and every name pattern, with names that recorders wrote."""

from __future__ import annotations

import pyarrow as pa
import pytest

from profsuite.trace import classes
from profsuite.trace.classes import CATEGORIES, PATTERNS, WORK_KINDS, Role


def kind_of(name):
    return WORK_KINDS[classes.kernel_kinds(pa.array([name]))[0]]


@pytest.mark.parametrize("pattern", PATTERNS, ids=lambda p: p.regex)
def test_each_pattern_knows_its_example(pattern):
    assert kind_of(pattern.example) == pattern.kind
    assert kind_of(pattern.example.upper()) == pattern.kind


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("ncclKernel_AllReduce_RING_LL_Sum_float(ncclDevComm*, unsigned long, ncclWork*)", "comm"),
        ("ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclWorkElem)", "comm"),
        ("ncclDevKernel_Generic_1(ncclDevKernelArgsStorage<4096ul>)", "comm"),
        ("mscclKernel_Sum_hip_bfloat16_Simple_false", "comm"),
        ("void (anonymous namespace)::multimem_all_reduce_kernel<c10::BFloat16, 16>(c10::BFloat16*)", "comm"),
        ("one_shot_all_reduce_kernel", "comm"),
        ("deep_ep::internode_ll::dispatch", "comm"),
        ("__amd_rocclr_fillBufferUnAligned", "memory"),
        ("__amd_rocclr_copyBuffer", "memory"),
        ("MEMORY_COPY_DEVICE_TO_HOST", "memory"),
        # Names that look like something else.
        ("_combined_routing_memset", "compute"),
        ("triton_poi_fused__to_copy_1", "compute"),
        ("_copy_page_indices_kernel", "compute"),
        ("__amd_rocclr_initHeap", "compute"),
        ("reduce_segments", "compute"),
        ("void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>>", "compute"),
        (
            "void splitKreduce_kernel<float, float, float, float, true, false, false>(cublasSplitKParams<float>)",
            "compute",
        ),
        ("void fft2d_r2c_32x32<float, false, 5u, true>(float2*, float const*, int, int)", "compute"),
        ("", "compute"),
    ],
)
def test_kernel_names(name, kind):
    assert kind_of(name) == kind


def test_categories_of_every_generation():
    words = [
        "Operator", "Runtime", "Kernel", "Memcpy", "Memset",
        "cpu_op", "cuda_runtime", "cuda_driver", "xpu_runtime", "mtia_runtime", "privateuse1_runtime",
        "kernel", "concurrent_kernel", "gpu_memcpy", "gpu_memset", "mtia_ccp_events",
        "gpu_user_annotation", "cuda_sync", "overhead", "python_function", "user_annotation", "Trace",
        "", None, "enqueue",
    ]  # fmt: skip
    assert [Role(r).name for r in classes.category_roles(words)] == [
        "OP", "LAUNCH", "KERNEL", "MEMCPY", "MEMSET",
        "OP", "LAUNCH", "LAUNCH", "LAUNCH", "LAUNCH", "LAUNCH",
        "KERNEL", "KERNEL", "MEMCPY", "MEMSET", "DEVICE_EVENT",
        "DEVICE_ANNOTATION", "SYNC", "OVERHEAD", "PYTHON", "ANNOTATION", "SPAN",
        "OTHER", "OTHER", "OTHER",
    ]  # fmt: skip


def test_categories_are_in_lower_case():
    assert all(word == word.lower() for word in CATEGORIES)


def test_only_kernels_copies_and_fills_are_device_work():
    roles = classes.category_roles(CATEGORIES)
    work = {w for w, is_work in zip(CATEGORIES, classes.role_mask(roles, classes.DEVICE_WORK), strict=True) if is_work}
    assert work == {"kernel", "concurrent_kernel", "gpu_memcpy", "gpu_memset", "memcpy", "memset"}


def test_roles_of_a_trace(make_trace):
    events = [{"ph": "X", "name": "a", "ts": 1, "dur": 1, "cat": c} for c in ("cpu_op", "kernel")]
    events.append({"ph": "X", "name": "a", "ts": 1, "dur": 1})
    assert make_trace(events).roles.tolist() == [Role.OP, Role.KERNEL, Role.OTHER]
    assert make_trace([]).roles.tolist() == []
