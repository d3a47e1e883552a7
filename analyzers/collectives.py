"""One rank's collectives: what each was, when it ran, how much of it nothing hid; small enough to hand around."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from profsuite.analyzers.collective_places import Places, places
from profsuite.analyzers.device_work import COMM, COMPUTE, NO_STREAM
from profsuite.analyzers.host_collectives import communication_rows, other_ops
from profsuite.analyzers.ranking import distinct_rows
from profsuite.trace.intervals import covered, merge, subtract

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from profsuite.analyzers.analysis import Analysis
    from profsuite.trace.intervals import IntervalSet
    from profsuite.trace.model import Trace

    Int64s = NDArray[np.int64]

NONE = -(2**63)
"""Stands in the arrays of ``Collectives`` for a number that is not known."""

KINDS = (
    "unknown",
    "all_reduce",
    "all_gather",
    "reduce_scatter",
    "all_to_all",
    "broadcast",
    "reduce",
    "gather",
    "scatter",
    "send",
    "recv",
    "send_recv",
    "barrier",
    "coalesced",
)
"""Kinds of collectives by their code.  ``send_recv`` is NCCL's kernel of that name: all-to-all, or point to point."""

_KIND_OF = (
    ("reducescatter", "reduce_scatter"),
    ("allreduce", "all_reduce"),
    ("crossdevicereduce", "all_reduce"),
    ("allgather", "all_gather"),
    ("alltoall", "all_to_all"),
    ("broadcast", "broadcast"),
    ("sendrecv", "send_recv"),
    ("coalesc", "coalesced"),
    ("barrier", "barrier"),
    ("reduce", "reduce"),
    ("gather", "gather"),
    ("scatter", "scatter"),
    ("send", "send"),
    ("recv", "recv"),
)

DTYPE_BYTES = {
    "bool": 1,
    "byte": 1,
    "char": 1,
    "short": 2,
    "int": 4,
    "long": 8,
    "half": 2,
    "bfloat16": 2,
    "float": 4,
    "double": 8,
    "complexhalf": 4,
    "complexfloat": 8,
    "complexdouble": 16,
}
"""Bytes of an element, by the name that torch prints, in lower case; float8 types are one byte each."""

_HOST_BACKEND = re.compile(r"^(?:gloo|mpi|ucc):")
_DDP, _FSDP = re.compile(r"^DistributedDataParallel\."), re.compile(r"^(?:FSDP::|fsdp::|FullyShardedDataParallel\.)")


@dataclass(frozen=True, slots=True)
class Group:
    """A process group as a rank knows it; ``ranks`` is null where the file does not say."""

    name: str | None
    description: str | None
    ranks: tuple[int, ...] | None


@dataclass(frozen=True, slots=True)
class Collectives:
    """The collectives of one rank, one element each, by start; picklable.

    ``start`` and ``end`` are ns on the file's clock: of the kernel on the device, else of the host's mark (gloo).
    ``launched`` is when the call that launched it ended, ``previous_end`` when the collective before it on its stream
    did, ``own_start`` from when on no earlier collective ran any more.  ``kind`` is a code of ``KINDS``, ``group`` an
    index of ``groups``, ``dtype`` of ``dtypes``, ``source`` of ``sources`` (-1: not known); ``stream`` counts the
    streams that communicate, from 0.  ``num_bytes`` is the larger of what goes in and comes out.  ``step`` is the
    number of the step.  What is not known is ``NONE``.  ``exposed`` is the time in which some collective ran and no
    computation (on a host: no op) did, ``compute`` the time in which computation did.
    """

    on_device: bool
    slice_ids: Int64s
    start: Int64s
    end: Int64s
    launched: Int64s
    previous_end: Int64s
    own_start: Int64s
    kind: NDArray[np.int8]
    group: NDArray[np.int32]
    sequence: Int64s
    source_rank: Int64s
    destination_rank: Int64s
    num_bytes: Int64s
    dtype: NDArray[np.int32]
    step: Int64s
    stream: NDArray[np.int32]
    source: NDArray[np.int32]
    redistribution: NDArray[np.bool_]
    groups: tuple[Group, ...]
    dtypes: tuple[str, ...]
    sources: tuple[str, ...]
    exposed: IntervalSet
    compute: IntervalSet
    uses_ddp: bool
    uses_fsdp: bool

    def __len__(self) -> int:
        return len(self.start)

    @property
    def dur(self) -> Int64s:
        """Duration of each, ns."""
        return self.end - self.start

    @property
    def exposed_ns(self) -> Int64s:
        """What nothing hid of each, ns; time that two collectives share is the earlier one's: they sum to the union."""
        return covered(self.own_start, self.end, self.exposed)

    @property
    def shortest(self) -> Int64s:
        """The shortest duration of each one's kind and size on this rank, ns: what the transfer takes at most."""
        _, index = distinct_rows(self.kind, self.num_bytes)
        least = np.full(len(self), np.iinfo(np.int64).max, np.int64)
        np.minimum.at(least, index, self.dur)
        return least[index]


def kind_of(name: str) -> str:
    """The kind of a collective by what a profiler, a backend or a kernel calls it."""
    bare = re.split(r"[(<]", name.replace("(anonymous namespace)::", ""), maxsplit=1)[0]
    letters = re.sub(r"[^a-z]", "", bare.rpartition(":")[2].lower())
    return next((kind for part, kind in _KIND_OF if part in letters), "unknown")


def dtype_bytes(dtype: str) -> int | None:
    """Bytes of an element of a type, null where it is not known."""
    name = dtype.lower().removeprefix("c10::")
    return 1 if name.startswith("float8") else DTYPE_BYTES.get(name)


def collectives(analysis: Analysis) -> Collectives:
    """The collectives of the rank's main device; of its host where that communicates through no device."""
    trace = analysis.trace
    work = None if analysis.main is None else analysis.work[analysis.main]
    if work is not None and (work.kind == COMM).any():
        comm = np.flatnonzero(work.kind == COMM)
        ids, op_ids, launch_ids, stream = (a[comm] for a in (work.ids, work.op_ids, work.launch_ids, work.streams))
        compute = merge(work.start[work.kind == COMPUTE], work.end[work.kind == COMPUTE])
        return _built(trace, ids, op_ids, launch_ids, stream, compute, _metadata_rows(trace, ids, op_ids), True)
    ids = _host_marks(analysis)
    ops = other_ops(analysis, communication_rows(analysis)) if len(ids) else np.zeros(0, np.int64)
    compute = merge(trace.array("slice", "ts")[ops], trace.end[ops])
    absent = np.full(len(ids), -1, np.int64)
    rows = np.stack((_called_rows(trace, ids), absent))
    return _built(trace, ids, ids, absent, np.zeros(len(ids), np.int64), compute, rows, False)


def _host_marks(analysis: Analysis) -> Int64s:
    """Marks of collectives that the host itself carries out, by start; NCCL's only say that one was enqueued."""
    trace = analysis.trace
    rows = communication_rows(analysis)
    names = trace.words("slice", "name")
    host = np.array([bool(_HOST_BACKEND.match(name)) for name in names] or [False])
    rows = rows[host[trace.array("slice", "name")[rows]]]
    ordered: Int64s = rows[np.argsort(trace.array("slice", "ts")[rows], kind="stable")]
    return ordered


def _metadata_rows(trace: Trace, ids: Int64s, op_ids: Int64s) -> Int64s:
    """Rows of ``collective`` that speak of each kernel: its own, and that of the op that launched it; else -1."""
    row_of = np.full(trace.num_rows("slice") + 1, -1, np.int64)  # the last one is for an id of -1
    row_of[trace.array("collective", "slice_id")] = np.arange(trace.num_rows("collective"))
    return np.stack((row_of[ids], row_of[op_ids]))


def _called_rows(trace: Trace, ids: Int64s) -> Int64s:
    """Rows of ``collective`` for the host's marks: those of the calls, in order, where there are as many of a kind.

    A mark runs on a thread of its own and has no other tie to its call.  Where the calls do not tell, the flight
    recorder's entries may.
    """
    found = np.full(len(ids), -1, np.int64)
    slices = trace.array("collective", "slice_id")
    if not len(slices) or not len(ids):
        return found
    names, name, start = trace.words("slice", "name"), trace.array("slice", "name"), trace.array("slice", "ts")
    kinds = {code: kind_of(names[code]) for code in np.unique(name[np.concatenate((ids, slices))]).tolist()}
    recorded = np.array([word == "flight_recorder" for word in trace.words("slice", "category")])
    from_flight = recorded[trace.array("slice", "category")[slices]]
    of_mark = np.array([kinds[code] for code in name[ids].tolist()])
    for source in (from_flight, ~from_flight):
        rows = np.flatnonzero(source)
        rows = rows[np.argsort(start[slices[rows]], kind="stable")]
        of_row = np.array([kinds[code] for code in name[slices[rows]].tolist()])
        for kind in set(of_mark.tolist()):
            mine, theirs = np.flatnonzero(of_mark == kind), rows[of_row == kind]
            if len(mine) == len(theirs):
                found[mine] = theirs
    return found


def _built(
    trace: Trace,
    ids: Int64s,
    op_ids: Int64s,
    launch_ids: Int64s,
    stream: Int64s,
    compute: IntervalSet,
    rows: Int64s,
    on_device: bool,
) -> Collectives:
    start, end = trace.array("slice", "ts")[ids], trace.end[ids]
    fields = _Fields(trace, rows)
    names, name = trace.words("slice", "name"), trace.array("slice", "name")[ids]
    kinds = fields.kinds()
    by_name = np.zeros(len(names), np.int8)
    for code in np.unique(name).tolist():
        by_name[code] = KINDS.index(kind_of(names[code]))
    kinds = np.where(kinds > 0, kinds, by_name[name]).astype(np.int8)
    group, groups = fields.groups()
    dtype, dtypes = fields.text("dtype")
    elements = np.maximum(fields.number("in_nelems"), fields.number("out_nelems"))
    size = np.array([dtype_bytes(d) or NONE for d in (*dtypes, "")], np.int64)[dtype]
    known = (elements >= 0) & (size > 0)
    step_id = trace.array("slice", "step_id")[ids]
    numbers = np.append(trace.array("step", "number"), NONE)
    streams, ordinal = np.unique(stream[stream != NO_STREAM], return_inverse=True)
    of_stream = np.full(len(stream), len(streams), np.int32)
    of_stream[stream != NO_STREAM] = ordinal
    where: Places = places(trace, np.where(op_ids >= 0, op_ids, launch_ids))
    reached = np.maximum.accumulate(end) if len(end) else end
    before = np.concatenate((np.array([NONE], np.int64), reached[:-1]))
    words = trace.words("slice", "name")
    return Collectives(
        on_device=on_device,
        slice_ids=ids,
        start=start,
        end=end,
        launched=np.where(launch_ids >= 0, trace.end[launch_ids], NONE) if len(trace.end) else start,
        previous_end=_previous_end(of_stream, end),
        own_start=np.maximum(start, before),
        kind=kinds,
        group=group,
        sequence=fields.number("sequence"),
        source_rank=fields.number("source_rank"),
        destination_rank=fields.number("destination_rank"),
        num_bytes=np.where(known, np.where(known, elements, 0) * np.where(known, size, 0), NONE),
        dtype=dtype,
        step=numbers[step_id],
        stream=of_stream,
        source=where.source,
        redistribution=where.redistribution,
        groups=groups,
        dtypes=dtypes,
        sources=where.sources,
        exposed=subtract(merge(start, end), compute),
        compute=compute,
        uses_ddp=any(_DDP.match(word) for word in words),
        uses_fsdp=any(_FSDP.match(word) for word in words),
    )


def _previous_end(stream: NDArray[np.int32], end: Int64s) -> Int64s:
    """When the collective before each one on its stream ended; the elements are sorted by start."""
    previous = np.full(len(end), NONE, np.int64)
    order = np.argsort(stream, kind="stable")
    same = stream[order][1:] == stream[order][:-1]
    previous[order[1:][same]] = end[order[:-1][same]]
    return previous


class _Fields:
    """Columns of ``collective`` for collectives that several rows speak of: the first row that knows decides."""

    def __init__(self, trace: Trace, rows: Int64s) -> None:
        self._trace, self._rows = trace, rows

    def number(self, column: str) -> Int64s:
        """A number of each, ``NONE`` where no row has it."""
        values = np.append(self._trace.array("collective", column).astype(np.int64), NONE)
        found = np.full(self._rows.shape[1], NONE, np.int64)
        for rows in self._rows[::-1]:
            value = values[rows]
            found = np.where(value != NONE, value, found)
        return found

    def text(self, column: str) -> tuple[NDArray[np.int32], tuple[str, ...]]:
        """A text of each as an index of the words, -1 where no row has it."""
        values = np.append(self._trace.array("collective", column), -1)
        found = np.full(self._rows.shape[1], -1, np.int32)
        for rows in self._rows[::-1]:
            value = values[rows]
            found = np.where(value >= 0, value, found)
        return found.astype(np.int32), tuple(map(str, self._trace.words("collective", column)))

    def kinds(self) -> NDArray[np.int8]:
        """The kind by the collective's name, 0 (unknown) where no row has one."""
        code, words = self.text("collective_name")
        kinds = np.array([KINDS.index(kind_of(word)) for word in (*words, "")], np.int8)
        return kinds[code]

    def groups(self) -> tuple[NDArray[np.int32], tuple[Group, ...]]:
        """The group of each as an index of the groups, -1 where no row names one."""
        columns = [self.text(c) for c in ("group_name", "group_description", "group_ranks")]
        first, index = distinct_rows(*(code for code, _ in columns))
        configured: dict[str, tuple[int, ...]] | None = None
        groups: list[Group] = []
        numbers: list[int] = []
        for row in first.tolist():
            name, description, text = (words[code[row]] if code[row] >= 0 else None for code, words in columns)
            ranks = None if text is None else parse_ranks(text)
            if ranks is None and name is not None:
                configured = configured_groups(self._trace) if configured is None else configured
                ranks = configured.get(name)
            numbers.append(len(groups) if name is not None or ranks is not None else -1)
            if numbers[-1] >= 0:
                groups.append(Group(name, description, ranks))
        return np.array(numbers, np.int32)[index] if numbers else np.zeros(0, np.int32), tuple(groups)


def parse_ranks(text: str) -> tuple[int, ...] | None:
    """The ranks of a group as torch writes them, null where the list was cut short (``[0, 1, ...]``) or is none."""
    try:
        ranks = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return _ranks(ranks)


def configured_groups(trace: Trace) -> dict[str, tuple[int, ...]]:
    """Ranks of each process group by its name, from the file's header."""
    header: Any = trace.metadata("distributedInfo")
    found = {}
    configs = header.get("pg_config") if isinstance(header, dict) else None
    for config in configs if isinstance(configs, list) else ():
        if isinstance(config, dict) and (ranks := _ranks(config.get("ranks"))) is not None:
            found[str(config.get("pg_name"))] = ranks
    return found


def _ranks(value: Any) -> tuple[int, ...] | None:
    if not isinstance(value, list) or not value or len(value) > 10**6:
        return None
    if not all(isinstance(rank, int) and not isinstance(rank, bool) and 0 <= rank < 2**31 for rank in value):
        return None
    return tuple(value)
