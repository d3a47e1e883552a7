"""What a host slice is by its category and name: the one table of the names that analyses look for.

The names are those that real recordings carry; tests/analyzers/test_host_calls.py has one example of each.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from profsuite.trace.classes import Role, category_roles

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from profsuite.trace.model import Trace

UNRECORDED, PYTHON, OP, LAUNCH, ALLOCATOR, SYNC, INPUT, COMPILE, GC = range(9)
CLASSES = ("unrecorded", "python", "op", "launch", "allocator", "sync", "input", "compile", "gc")
"""Classes of host time by their code.  From ``input`` on, a slice claims all that happens inside it."""

_BARE_CALL = r"^(?:AscendCL@|Node@launch$)"
_QUEUE = r"(?i)^(?:en|de)queue$"

_PREFIX = r"^(?:AscendCL@)?"
_SYNC = _PREFIX + r"(?:\w*[sS]ynchronize\w*|(?:cuda|hip|cu|aclrt)Memcpy\w*)$"
_ASYNC = r"Memcpy\w*Async"
_ALLOCATOR = _PREFIX + (
    r"(?:(?:cuda|hip|aclrt)(?:Host)?(?:Malloc|Free|Alloc)\w*|cudaHost(?:Register|Unregister)"
    r"|(?:cu|hip)Mem(?:Create|Map|Unmap|Release|SetAccess|Address|Alloc|Free|Host)\w*|zeMem(?:Alloc|Free)\w*)$"
)
_INPUT = r"^enumerate\(DataLoader\)#|dataloader\.py\(\d+\): (?:__next__|_next_data)$|DataLoader\w*\.__next__$"
_INPUT_MARK = r"(?i)data_?loader|data[ _]?load|(?:load|next|get|fetch)_batch|wait(?:ing)?_(?:for_)?data|data_wait"
_COMPILE = (
    r"\(dynamo_timed\)$|^torch\.compile .*\d/\d|^torch/_dynamo/convert_frame\.py"
    r"|^torch/_inductor/(?:compile_fx|graph|scheduler|async_compile)\.py"
    r"|^triton/compiler/|triton_heuristics\.py\(\d+\): (?:precompile|_precompile_worker|autotune_to_one_config)$"
)
_GC = r"^(?:Python GC|gc\.collect|GC generation|<built-in (?:function|method) collect\b)"
_ANNOTATION = r"^(?:ProfilerStep#|Iteration#|enumerate\(|Optimizer\.|DistributedDataParallel\.|##)"
_ITEM = r"^aten::(?:_local_scalar_dense|nonzero|is_nonzero|masked_select|unique_consecutive|_unique2|equal)$"
_LAUNCH = (
    _PREFIX + r"(?:\w*Launch\w*Kernel\w*|\w*LaunchKernel\w*|\w*GraphLaunch\w*|\w*Mem(?:cpy|set)\w*|runFunction.*)$"
)
_GRAPH_LAUNCH = _PREFIX + r"\w*GraphLaunch\w*$"
_COMMUNICATION = r"^(?:gloo|nccl|mpi|hccl|ucc|xccl|c10d)::?\w"
_WAIT_EVENT = _PREFIX + r"(?:cuda|cu|hip|aclrt)StreamWaitEvent\w*$"


def matching(trace: Trace, pattern: str) -> NDArray[np.bool_]:
    """Whether each distinct slice name matches an RE2 pattern; indexed by the name's code."""
    column: Any = trace.slices.column("name").unify_dictionaries()
    if not column.num_chunks:
        return np.zeros(0, bool)
    found: Any = pc.match_substring_regex(column.chunk(0).dictionary, pattern)
    found = found.cast(pa.uint8())
    # Not to_numpy: that imports pandas, which takes longer than all analyzers.
    return np.frombuffer(found.buffers()[1], np.uint8, len(found), found.offset).astype(bool)


def host_classes(trace: Trace) -> NDArray[np.int8]:
    """The class of every slice, as a code of ``CLASSES``; ``UNRECORDED`` for what is not on a host track.

    Decided by category and name, but a copy from or to pageable memory blocks its call: that call is ``sync``.
    """
    name, category = trace.array("slice", "name"), trace.array("slice", "category")
    if not len(name):
        return np.zeros(0, np.int8)
    categories = trace.words("slice", "category")
    roles = category_roles(categories)
    is_op, is_call = roles == Role.OP, roles == Role.LAUNCH
    is_call |= np.array([bool(re.search(_QUEUE, c)) for c in categories])
    bare = np.array([c == "" for c in categories])
    mark = (roles == Role.ANNOTATION) | is_op

    as_call = np.full(len(trace.words("slice", "name")), LAUNCH, np.int8)
    as_call[matching(trace, _ALLOCATOR)] = ALLOCATOR
    as_call[matching(trace, _SYNC) & ~matching(trace, _ASYNC)] = SYNC
    claim = np.zeros(len(as_call), np.int8)
    for code, pattern in ((GC, _GC), (COMPILE, _COMPILE), (INPUT, _INPUT)):
        claim[matching(trace, pattern)] = code
    input_mark = matching(trace, _INPUT_MARK) & ~matching(trace, r"::|\(")

    result = np.full(len(name), PYTHON, np.int8)
    result[is_op[category] & ~matching(trace, _ANNOTATION)[name]] = OP
    call = is_call[category] | (bare[category] & matching(trace, _BARE_CALL)[name])
    result[call] = as_call[name[call]]
    result[mark[category] & input_mark[name]] = INPUT
    claimed = ~call & (claim[name] != 0)
    result[claimed] = claim[name[claimed]]
    pageable = matching(trace, "(?i)pageable")
    launch = trace.array("memcpy", "launch_id")[pageable[name[trace.array("memcpy", "slice_id")]]]
    launch = launch[launch >= 0]
    result[launch[result[launch] == LAUNCH]] = SYNC

    kinds = trace.words("track", "kind")
    host = np.array([k == "host" for k in kinds] or [False])[trace.array("track", "kind")]
    result[~host[trace.array("slice", "track_id")]] = UNRECORDED
    return result


def communicates(trace: Trace) -> NDArray[np.bool_]:
    """Whether an annotation or op of each distinct name is a collective, or a send or receive."""
    return matching(trace, _COMMUNICATION)


def waits_for_values(trace: Trace) -> NDArray[np.bool_]:
    """Whether an op of each distinct name must bring a value to the host, and so waits for the device."""
    return matching(trace, _ITEM)


def waits_for_events(trace: Trace) -> NDArray[np.bool_]:
    """Whether a call of each distinct name makes a stream wait for an event."""
    return matching(trace, _WAIT_EVENT)


def launches_graphs(trace: Trace) -> NDArray[np.bool_]:
    """Whether a call of each distinct name launches a whole graph."""
    return matching(trace, _GRAPH_LAUNCH)


def launches_work(trace: Trace) -> NDArray[np.bool_]:
    """Whether a call of each distinct name starts device work (kernel, graph, copy, fill)."""
    return matching(trace, _LAUNCH)
