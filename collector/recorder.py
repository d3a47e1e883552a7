"""The always-on recorder: ops, annotations and collectives of all threads, at less than half of Kineto's cost.

A C++ extension (``native/recorder.h``) listens to PyTorch's RecordFunction and writes into a ring a thread; a thread
of its own drains them, and a thread that finds its ring full drains it itself.  There is one recorder a process.
``stop`` and ``take`` give what was recorded as a ``RawTrace`` with times in ns since the epoch: ops as ``cpu_op``,
annotations as ``user_annotation``.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from profsuite.collector import annotate, build
from profsuite.collector.recording import RawBuilder, empty
from profsuite.errors import ProfsuiteError
from profsuite.trace.readers.fields import NULL_INT64
from profsuite.trace.readers.raw import Remark

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from profsuite.trace.readers.raw import RawTrace

RING_BYTES: Final = 1 << 20
"""Of each thread: some 20,000 ops, drained every 20 ms or when a quarter is full."""

MAX_ROWS: Final = 20_000_000
"""Ops held until they are taken (48 bytes each); later ones are counted and dropped."""

_DTYPES: Final = {
    "ts": np.int64, "dur": np.int64, "sequence": np.int64, "forward_thread": np.int64, "thread": np.int32,
    "name": np.int32, "inputs": np.int32, "collective_row": np.int32, "user": np.int8, "async": np.int8,
}  # fmt: skip

_COLLECTIVES: Final = {
    "allreduce_": "allreduce", "allreduce_coalesced_": "allreduce_coalesced", "broadcast_": "broadcast",
    "reduce_": "reduce", "allgather_": "all_gather", "_allgather_base_": "_allgather_base",
    "allgather_coalesced_": "all_gather_coalesced",
    "allgather_into_tensor_coalesced_": "all_gather_into_tensor_coalesced", "reduce_scatter_": "reduce_scatter",
    "_reduce_scatter_base_": "_reduce_scatter_base",
    "reduce_scatter_tensor_coalesced_": "reduce_scatter_tensor_coalesced", "gather_": "gather", "scatter_": "scatter",
    "alltoall_": "all_to_all", "alltoall_base_": "all_to_allv", "barrier": "barrier",
    "monitored_barrier_": "monitored_barrier", "send": "send", "recv_": "recv",
    "recv_any_source_": "recv_any_source",
}  # fmt: skip
"""c10d's ops, and what the NCCL backend calls them in a trace."""

_EVALUATE: Final = "autograd::engine::evaluate_function: "

_STEP_NS: Final = 1_000_000
"""A wall clock that moved further than this against the monotonic one was set, not slewed."""


class RecorderError(ProfsuiteError):
    """The recorder is used in a way that it cannot be: started twice in a process."""


@dataclass(frozen=True, slots=True)
class Availability:
    """Whether the recorder can be used now; if not, ``why``."""

    ok: bool
    why: str = ""

    def __bool__(self) -> bool:
        return self.ok


def available() -> Availability:
    """Whether a built extension is there; nothing is built and nothing started for the answer."""
    why = build.why_not("recorder")
    return Availability(why is None, why or "")


class Recorder:
    """The recorder of this process: ``start``, ``take`` as often as wanted, ``stop``.

    ``shapes`` records the inputs' dimensions and dtypes as well, ``collectives`` the process groups of c10d's ops
    (None: where a group exists whose backend does not record them itself, such as gloo; the inputs of every op must
    be looked at then, which costs about 100 ns an op).  ``ring_bytes`` is the size of each thread's ring.
    """

    def __init__(
        self,
        extension: Any,
        *,
        shapes: bool = False,
        collectives: bool | None = None,
        ring_bytes: int = RING_BYTES,
        max_rows: int = MAX_ROWS,
    ) -> None:
        self.shapes = shapes
        self.collectives = collectives
        self.ring_bytes = ring_bytes
        self.max_rows = max_rows
        self._extension = extension
        self._pid = 0
        self._reads_groups = False
        self._lost: dict[str, int] = {}

    @classmethod
    def load(cls, *, wait: bool = False, **settings: Any) -> Recorder | None:
        """A recorder, or None where no build of its extension is at hand; one is started in the background then.

        With ``wait`` the build is made at once, and ``BuildError`` says why it cannot be.  ``settings`` are those of
        the class.
        """
        extension = build.load("recorder", wait=wait)
        return None if extension is None else cls(extension, **settings)

    @property
    def recording(self) -> bool:
        """Whether it records; never in a forked child of the process that started it."""
        return self._pid == os.getpid() and bool(self._extension.recording())

    @property
    def clock(self) -> str:
        """``counter`` (time stamp counter) or ``monotonic`` where the counter's rate is not constant."""
        return str(self._extension.clock())

    def start(self, *, shapes: bool | None = None) -> None:
        """Begin to record all threads; ``RecorderError`` if a recorder of this process does already."""
        if shapes is not None:
            self.shapes = shapes
        with _lock:
            if self._extension.recording():
                raise RecorderError("the recorder runs already: one recording at a time in a process")
            self._reads_groups = _groups_unrecorded() if self.collectives is None else self.collectives
            self._extension.start(self.shapes, self._reads_groups, True, self.ring_bytes, self.max_rows)
            self._pid = os.getpid()
            self._lost = {}
            annotate.listen(self._extension.push, self._extension.pop)

    def refresh(self) -> None:
        """Take notice of process groups made since the start; cheap, meant for every step."""
        if self._reads_groups or self.collectives is not None or not self.recording:
            return
        if _groups_unrecorded():
            self._extension.read_groups()
            self._reads_groups = True

    def take(self) -> RawTrace:
        """What ended since the start or the last ``take``; spans still open come with a later one."""
        if not self.recording:
            return empty()
        return self._raw(self._extension.take())

    def stop(self) -> RawTrace:
        """Stop recording: what was not taken yet.  Spans still open end now.  Empty if nothing records."""
        with _lock:
            if not self.recording:
                return empty()
            annotate.listen(None, None)
            taken = self._extension.stop()
            self._pid = 0
        return self._raw(taken)

    def _raw(self, taken: dict[str, Any] | None) -> RawTrace:
        if taken is None:
            return empty()
        columns = {name: np.frombuffer(taken[name], dtype) for name, dtype in _DTYPES.items()}
        out = RawBuilder()
        is_user = columns["user"] != 0
        op, user = out.code("category", "cpu_op"), out.code("category", "user_annotation")
        out.append(
            "slice",
            {
                "ts": columns["ts"],
                "dur": columns["dur"],
                "track": _tracks(out, taken["threads"], columns["thread"], columns["async"]),
                "name": _texts(out, "name", taken["names"], columns["name"]),
                "category": np.where(is_user, user, op),
            },
        )
        rows = np.flatnonzero(~is_user)
        order = np.lexsort((-columns["dur"][rows], columns["ts"][rows], columns["thread"][rows]))
        source = _evaluated(taken["names"], columns["name"][rows], order)
        sequence = columns["sequence"][rows][source]
        forward = columns["forward_thread"][rows][source]
        inputs = columns["inputs"][rows]
        out.append(
            "op",
            {
                "row": rows,
                "sequence": np.where(sequence < 0, NULL_INT64, sequence),
                "forward_thread": np.where(sequence < 0, NULL_INT64, forward),
                "dims": _texts(out, "shape", taken["dims"], inputs),
                "types": _texts(out, "types", taken["types"], inputs),
                "layouts": _texts(out, "types", [text or None for text in taken["layouts"]], inputs),
            },
        )
        self._add_collectives(out, taken, columns)
        _add_header(out, self.shapes)
        self._remark(out, taken)
        return out.build()

    def _add_collectives(self, out: RawBuilder, taken: dict[str, Any], columns: dict[str, NDArray[Any]]) -> None:
        ranks = _group_ranks() if taken["collectives"] else {}
        for row, found in zip(columns["collective_row"].tolist(), taken["collectives"], strict=True):
            group, description, dtype, size, rank, sequence, in_nelems, out_nelems, peer, is_async = found
            op = taken["names"][columns["name"][row]].removeprefix("c10d::")
            out.add(
                "collective",
                row=row,
                collective=_COLLECTIVES.get(op, op.strip("_")),
                dtype=dtype or None,
                in_nelems=_known(in_nelems),
                out_nelems=_known(out_nelems),
                group_size=_known(size),
                group_name=group or None,
                group_description=description or None,
                group_ranks=ranks.get(group),
                rank=_known(rank),
                source_rank=_known(peer) if op == "recv_" else None,
                destination_rank=_known(peer) if op == "send" else None,
                sequence=_known(sequence),
                is_async=None if op == "monitored_barrier_" else is_async,
            )

    def _remark(self, out: RawBuilder, taken: dict[str, Any]) -> None:
        """Remarks on what was lost since the last take."""
        said = {
            "overrun": "{} ops were not recorded: open spans alone filled their threads' rings ({:,} bytes each)",
            "over_limit": "{} ops were not recorded: the recorder held {:,} already; take() empties it",
            "no_shape": "the inputs of {} ops were not recorded: too many of them, or too many different ones",
        }
        counted = {"overrun": "overruns", "over_limit": "over_limit", "no_shape": "shapeless"}
        for kind, key in counted.items():
            count = taken[key] - self._lost.get(key, 0)
            self._lost[key] = taken[key]
            if count > 0:
                limit = self.ring_bytes if kind == "overrun" else self.max_rows
                out.remarks.append(Remark(kind, count, None, said[kind].format(f"{count:,}", limit) + "."))
        if taken["open"]:
            message = f"{taken['open']:,} spans were open when the recorder stopped; they end there."
            out.remarks.append(Remark("unclosed", taken["open"], None, message))
        if abs(taken["step_ns"]) > _STEP_NS:
            message = (
                f"The wall clock was set while the recorder ran, by {taken['step_ns'] / 1e9:+.3f} s; times go on "
                "from what it showed at the start."
            )
            out.remarks.append(Remark("clock_step", 1, None, message))


_lock = threading.Lock()
os.register_at_fork(after_in_child=lambda: globals().update(_lock=threading.Lock()))


def _known(number: int) -> int | None:
    return None if number < 0 else number


def _tracks(
    out: RawBuilder, threads: list[tuple[int, int, str]], thread: NDArray[np.int32], is_async: NDArray[np.int8]
) -> NDArray[np.int32]:
    """The track of each row; asynchronous spans outlive what began them, so they are kept on tracks of their own."""
    pid = os.getpid()
    width = max((index for index, _, _ in threads), default=0) + 1
    tracks = np.full((2, width), -1, np.int32)
    for index, tid, label in sorted(threads):
        for kind, suffix in enumerate(("", " async")):
            if bool(((thread == index) & (is_async == kind)).any()):
                track = out.track(pid, f"{tid}{suffix}")
                tracks[kind, index] = track
                out.add_metadata(track, "process_name", "name", "python")
                out.add_metadata(track, "process_labels", "labels", "CPU")
                out.add_metadata(track, "thread_name", "name", f"thread {tid} ({label}){suffix}")
    found: NDArray[np.int32] = tracks[(is_async != 0).astype(np.int8), thread]
    return found


def _texts(out: RawBuilder, pool: str, texts: Sequence[str | None], number: NDArray[np.int32]) -> NDArray[np.int32]:
    """Codes of the numbered texts; only those in use enter the pool."""
    codes = np.full(len(texts) + 1, -1, np.int32)
    for i in np.unique(number[number >= 0]).tolist():
        codes[i] = out.code(pool, texts[i])
    found: NDArray[np.int32] = codes[number]  # number -1: the last, none
    return found


def _evaluated(names: list[str], name: NDArray[np.int32], order: NDArray[np.int64]) -> NDArray[np.int64]:
    """For each op the op whose sequence number it has: itself, but for the engine the node that it evaluates.

    RecordFunction gives the engine's ``evaluate_function: …Backward0`` no number; Kineto takes that of the node, which
    is the next op on the thread.  ``order``: the ops by thread and time.
    """
    source = np.arange(len(name))
    first: dict[str, int] = {}  # a name is interned once for each scope
    same = np.array([first.setdefault(text, i) for i, text in enumerate(names)], np.int64)
    node = np.array([first.get(text.removeprefix(_EVALUATE), -1) for text in names], np.int64)
    node[node == same] = -1  # no evaluation
    at, after = order[:-1], order[1:]
    is_node = (node[name[at]] >= 0) & (node[name[at]] == same[name[after]])
    source[at[is_node]] = after[is_node]
    return source


def _distributed() -> Any:
    """torch.distributed where the program uses it, else None."""
    module = sys.modules.get("torch.distributed")
    if module is None or not module.is_available() or not module.is_initialized():
        return None
    return module


def _groups_unrecorded() -> bool:
    """Whether there is a process group of a backend that records no arguments of its collectives."""
    distributed = _distributed()
    if distributed is None:
        return False
    groups = getattr(getattr(distributed.distributed_c10d, "_world", None), "pg_map", {})
    backends = {str(value[0]) for value in groups.values()} or {str(distributed.get_backend())}
    return any("gloo" in backend or "mpi" in backend or "fake" in backend for backend in backends)


def _group_ranks() -> dict[str, str]:
    """The ranks of each process group by its name, as Kineto writes them."""
    distributed = _distributed()
    if distributed is None:
        return {}
    try:
        world = distributed.distributed_c10d._world
        return {world.pg_names[group]: str(sorted(ranks)) for group, ranks in world.pg_group_ranks.items()}
    except (AttributeError, KeyError, TypeError):  # private to torch: absent is null
        return {}


def _add_header(out: RawBuilder, shapes: bool) -> None:
    out.header["schemaVersion"] = "1"
    out.header["baseTimeNanoseconds"] = "0"
    out.header["record_shapes"] = str(int(shapes))
    distributed = _distributed()
    if distributed is not None:
        about = {
            "backend": str(distributed.get_backend()),
            "rank": distributed.get_rank(),
            "world_size": distributed.get_world_size(),
        }
        out.header["distributedInfo"] = json.dumps(about)
