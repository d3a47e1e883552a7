"""What a slice is: the one table of categories and name patterns.

Category first, then metadata (a ``Collective name`` makes a kernel communication), then the name.
Everything here looks at dictionaries of distinct strings, never at single events.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Final, Literal, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from profsuite.trace.columns import to_numpy

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from profsuite.trace.model import Trace


class Role(IntEnum):
    """What a slice's category says it is."""

    OTHER = 0
    OP = 1
    """A framework operator on the host."""
    ANNOTATION = 2
    """A user's mark on the host, ``ProfilerStep#N`` included."""
    PYTHON = 3
    """A Python function call."""
    LAUNCH = 4
    """A runtime or driver call on the host: what launches device work."""
    KERNEL = 5
    """Device work: a kernel."""
    MEMCPY = 6
    """Device work: a copy."""
    MEMSET = 7
    """Device work: a fill."""
    SYNC = 8
    """A wait that the device's tracer reported; not device work."""
    DEVICE_ANNOTATION = 9
    """A host annotation mirrored onto the device work under it; not device work."""
    DEVICE_EVENT = 10
    """Something else on a device's track, of unknown relation to its busy time; not device work."""
    OVERHEAD = 11
    """Time that the profiler itself took."""
    SPAN = 12
    """The span of a recording."""


CATEGORIES: Final[dict[str, Role]] = {
    # libkineto's ActivityType names.
    "cpu_op": Role.OP,
    "user_annotation": Role.ANNOTATION,
    "python_function": Role.PYTHON,
    "cuda_runtime": Role.LAUNCH,
    "cuda_driver": Role.LAUNCH,
    "hip_runtime": Role.LAUNCH,
    "hip_driver": Role.LAUNCH,
    "xpu_runtime": Role.LAUNCH,
    "xpu_driver": Role.LAUNCH,
    "mtia_runtime": Role.LAUNCH,
    "glow_runtime": Role.LAUNCH,
    "privateuse1_runtime": Role.LAUNCH,
    "privateuse1_driver": Role.LAUNCH,
    "kernel": Role.KERNEL,
    "concurrent_kernel": Role.KERNEL,
    "gpu_memcpy": Role.MEMCPY,
    "gpu_memset": Role.MEMSET,
    "cuda_sync": Role.SYNC,
    "xpu_sync": Role.SYNC,
    "gpu_user_annotation": Role.DEVICE_ANNOTATION,
    # One MTIA command appears several times, as request, transfer and completion: no busy time.
    "mtia_ccp_events": Role.DEVICE_EVENT,
    "mtia_workloadd": Role.DEVICE_EVENT,
    "mtia_insight": Role.DEVICE_EVENT,
    "cuda_profiler_range": Role.DEVICE_EVENT,
    "cuda_event": Role.DEVICE_EVENT,
    "overhead": Role.OVERHEAD,
    "trace": Role.SPAN,
    # torch 1.8 and 1.9.
    "operator": Role.OP,
    "runtime": Role.LAUNCH,
    "memcpy": Role.MEMCPY,
    "memset": Role.MEMSET,
}
"""Role of each category, in lower case; any other category (or none) is ``Role.OTHER``.

Ascend's tracks have no category on device slices, and the tracks overlap each other by
construction (tasks, HCCL planes, "Overlap Analysis"): they stay ``OTHER`` and are never counted as
device time.
"""

DEVICE_WORK: Final = (Role.KERNEL, Role.MEMCPY, Role.MEMSET)
"""The roles whose slices keep a device busy."""

ON_DEVICE: Final = (*DEVICE_WORK, Role.SYNC, Role.DEVICE_ANNOTATION, Role.DEVICE_EVENT)
"""The roles whose slices lie on a device's track."""

ON_HOST: Final = (Role.OP, Role.ANNOTATION, Role.PYTHON, Role.LAUNCH)
"""The roles whose slices lie on a host thread."""

WorkKind = Literal["compute", "comm", "memory"]
WORK_KINDS: Final[tuple[WorkKind, ...]] = ("compute", "comm", "memory")
"""Classes of device work, in the order of their codes."""


@dataclass(frozen=True, slots=True)
class NamePattern:
    """Kernels whose name matches ``regex`` (RE2, case-insensitive, anywhere) are ``kind``."""

    kind: WorkKind
    regex: str
    example: str


PATTERNS: Final[tuple[NamePattern, ...]] = (
    NamePattern("comm", r"nccl", "ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)"),
    NamePattern("comm", r"rccl", "rcclDevKernel_AllReduce_Sum_f32"),
    NamePattern("comm", r"hccl", "HcclAllreduce"),
    NamePattern("comm", r"oneccl", "oneccl_allreduce_pcie"),
    NamePattern("comm", r"msccl", "mscclKernel_Sum_half_Simple_false(ncclDevComm*, mscclAlgo*, mscclWork*)"),
    # All-reduce kernels of vLLM, SGLang, aiter and torch's symmetric memory.
    NamePattern("comm", r"cross_device_reduce", "aiter::cross_device_reduce_2stage<bf16,8,false>"),
    NamePattern("comm", r"multimem", "void (anonymous namespace)::multimem_all_reduce_kernel<c10::BFloat16, 16>"),
    NamePattern("comm", r"symm_mem", "symm_mem::multimem_all_reduce_"),
    NamePattern("comm", r"(one|two)_shot_all_reduce", "two_shot_all_reduce_kernel_inplace"),
    # NVSHMEM, and the expert-parallel kernels on it.
    NamePattern("comm", r"nvshmem", "nvshmemi_ibgda_put_nbi_warp"),
    NamePattern("comm", r"deep_?ep", "deep_ep::internode_ll::combine"),
    NamePattern("comm", r"ibgda", "nvshmemi_ibgda_put_nbi_warp"),
    # ROCm 7.1 files copies and fills under the category of kernels.  Anchored: a Triton kernel named
    # _combined_routing_memset is compute.
    NamePattern("memory", r"^__amd_rocclr_copybuffer", "__amd_rocclr_copyBuffer.kd"),
    NamePattern("memory", r"^__amd_rocclr_fillbuffer", "__amd_rocclr_fillBufferUnAligned"),
    NamePattern("memory", r"^memory_copy_", "MEMORY_COPY_HOST_TO_DEVICE"),
)
"""Name patterns of kernels, in order: the first that matches decides, none means compute."""


def category_roles(categories: Iterable[str | None]) -> NDArray[np.int8]:
    """The ``Role`` of each category (length of ``categories``), case-insensitive."""
    return np.array([CATEGORIES.get((c or "").lower(), Role.OTHER) for c in categories], dtype=np.int8)


def kernel_kinds(names: pa.StringArray) -> NDArray[np.int8]:
    """The class of a kernel by its name: index into ``WORK_KINDS`` for each of ``names``."""
    kinds = np.zeros(len(names), dtype=np.int8)
    undecided = np.ones(len(names), dtype=bool)
    for code, kind in enumerate(WORK_KINDS):
        regexes = [f"(?:{p.regex})" for p in PATTERNS if p.kind == kind]
        if regexes:
            hit = to_numpy(pc.match_substring_regex(names, "|".join(regexes), ignore_case=True))
            kinds[undecided & hit] = code
            undecided &= ~hit
    return kinds


def role_mask(roles: NDArray[np.int8], wanted: Iterable[Role]) -> NDArray[np.bool_]:
    """True where ``roles`` is one of ``wanted``."""
    table = np.zeros(len(Role), dtype=bool)
    table[list(wanted)] = True
    return cast("NDArray[np.bool_]", table[roles])


def slice_roles(trace: Trace) -> NDArray[np.int8]:
    """The ``Role`` of every slice (one int8 a row of ``slice``); ``Trace.roles`` remembers it."""
    roles = category_roles(trace.words("slice", "category"))
    return cast("NDArray[np.int8]", roles[trace.array("slice", "category")]) if len(roles) else np.zeros(0, np.int8)
