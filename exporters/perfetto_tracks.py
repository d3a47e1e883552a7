"""Track descriptors: processes, threads, devices, streams, lanes and counters under names that people read."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from profsuite.exporters.protobuf import delimited, number

if TYPE_CHECKING:
    from profsuite.exporters.timeline import Timeline

_UUID, _NAME, _PROCESS, _THREAD, _PARENT, _COUNTER, _ORDERING, _RANK = 1, 2, 3, 4, 5, 8, 11, 12
_EXPLICIT: Final = 3
_PID, _TID, _SORT, _PROCESS_NAME, _THREAD_NAME, _PROCESS_LABEL = 1, 2, 3, 6, 5, 8
_DEVICE: Final = re.compile(r"\s*(?:GPU|XPU|MTIA|HPU|NPU|CUDA|HIP)\s*\d{1,4}\s*", re.IGNORECASE)
MAX_ID: Final = 2**31


def process_key(rank: Timeline, pid: str) -> str:
    """What a process is told from others by."""
    return f"{rank.number}\0{pid}"


class Tracks:
    """Numbers tracks (their uuids) and writes their descriptors."""

    def __init__(self) -> None:
        self._next = 1
        self._processes: dict[str, int] = {}
        self._pids: set[int] = set()

    def of(self, rank: Timeline) -> tuple[list[int], list[bytes]]:
        """The uuid of every written track of a rank, and the descriptors of those and of their processes."""
        uuids: list[int] = []
        made: list[bytes] = []
        own = rank.batches.tracks
        for order, track in enumerate(rank.tracks):
            pid, tid = own[track.number]
            if track.lane:
                name = f"{rank.names['thread_name'][track.number] or tid} (overlapping, {track.lane})"
                uuids.append(self._named(made, name, uuids[track.number], track.lane))
                continue
            key = process_key(rank, pid)
            if key not in self._processes:
                self._processes[key] = self._process(made, rank, track.number, pid)
            parent = self._processes[key]
            thread = rank.names["thread_name"][track.number]
            if parent < 0 and (number_ := _whole(tid)) is not None:
                uuids.append(self._thread(made, rank, track.number, -parent, number_, thread))
            else:
                uuids.append(self._named(made, thread or tid or "track", abs(parent), order))
        return uuids, made

    def counter(self, name: str, parent: int) -> tuple[int, bytes]:
        """A counter's track below another: its uuid and descriptor."""
        uuid = self._new()
        text = name.encode("utf-8", "replace")
        return uuid, number(_UUID, uuid) + number(_PARENT, parent) + delimited(_NAME, text) + delimited(_COUNTER, b"")

    def own(self, name: str) -> tuple[int, bytes]:
        """A track of its own at the top: its uuid and descriptor."""
        made: list[bytes] = []
        return self._named(made, name, None, 0), made[0]

    def _new(self) -> int:
        self._next += 1
        return self._next - 1

    def _process(self, made: list[bytes], rank: Timeline, track: int, pid: str) -> int:
        """The uuid of a process; negated where its threads are threads to Perfetto, too."""
        names = rank.names
        name, label = names["process_name"][track] or "", names["process_labels"][track] or ""
        prefix = f"rank {rank.rank}: " if rank.num_ranks > 1 else ""
        index = _sort_index(names["process_sort_index"][track])
        pid_number = _whole(pid)
        if pid_number is None or pid_number in self._pids or _DEVICE.fullmatch(label):
            title = " ".join(dict.fromkeys(part for part in (label, name) if part)) or pid or "process"
            return self._named(made, prefix + title, None, index if index is not None else rank.number)
        self._pids.add(pid_number)
        uuid = self._new()
        body = number(_PID, pid_number) + delimited(_PROCESS_NAME, _text(prefix + (name or "process")))
        if label:
            body += delimited(_PROCESS_LABEL, _text(label))
        if index is not None:
            body += number(_SORT, index)
        made.append(number(_UUID, uuid) + delimited(_PROCESS, body))
        return -uuid

    def _thread(self, made: list[bytes], rank: Timeline, track: int, parent: int, tid: int, name: str | None) -> int:
        uuid = self._new()
        pid = _whole(rank.batches.tracks[track][0])
        assert pid is not None
        body = number(_PID, pid) + number(_TID, tid)
        if name:
            body += delimited(_THREAD_NAME, _text(name))
        index = _sort_index(rank.names["thread_sort_index"][track])
        if index is not None:
            body += number(_SORT, index)
        made.append(number(_UUID, uuid) + number(_PARENT, parent) + delimited(_THREAD, body))
        return uuid

    def _named(self, made: list[bytes], name: str, parent: int | None, order: int) -> int:
        uuid = self._new()
        body = number(_UUID, uuid) + delimited(_NAME, _text(name)) + number(_ORDERING, _EXPLICIT)
        if parent is not None:
            body += number(_PARENT, parent)
        made.append(body + number(_RANK, max(-MAX_ID, min(order, MAX_ID - 1))))
        return uuid


def _whole(text: str) -> int | None:
    """A pid or tid that Perfetto takes: it keeps 0 for itself."""
    value = int(text) if text.isascii() and text.isdecimal() and len(text) < 12 else 0
    return value if 0 < value < MAX_ID else None


def _sort_index(text: str | None) -> int | None:
    bare = (text or "").removeprefix("-")
    value = int(text or "") if bare.isascii() and bare.isdecimal() and len(bare) < 12 else MAX_ID
    return value if -MAX_ID <= value < MAX_ID else None


def _text(text: str) -> bytes:
    return text.encode("utf-8", "replace")
