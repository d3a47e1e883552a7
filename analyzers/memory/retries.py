"""Retries of the allocator: the driver refused, cached segments were given back, and it was asked again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from profsuite.analyzers.memory.model import AllocatorRetry

if TYPE_CHECKING:
    from profsuite.analyzers.memory.snapshot import History, StackFrames
    from profsuite.trace.snapshot import Snapshot

_RELEASES = "empty_cache"
"""The function that gives segments back because the program asked for it."""


def retries(snapshot: Snapshot, past: History, frames: StackFrames) -> tuple[AllocatorRetry, ...] | None:
    """The retries of one device in order; null where segments were given back and no stack tells by whom.

    A retry is a run of ``segment_free`` (``segment_unmap``) entries that a ``segment_alloc`` (``segment_map``) or an
    ``oom`` follows directly, all made at the same place (one stack), which is not inside ``empty_cache``.
    """
    gives = past.of("segment_free", "segment_unmap")
    if not gives.any():
        return ()
    begins = np.flatnonzero(gives & ~np.append(False, gives[:-1]))
    ends = np.flatnonzero(gives & ~np.append(gives[1:], False)) + 1
    inside = ends < len(gives)
    takes, fails = past.of("segment_alloc", "segment_map"), past.of("oom")
    begins, ends = begins[inside], ends[inside]
    follows = takes[ends] | fails[ends]
    begins, ends = begins[follows], ends[follows]
    if bool((past.stack[begins] < 0).any()):
        return None
    same = past.stack[ends - 1] == past.stack[ends]
    emptied = {
        stack: any(text.endswith(f": {_RELEASES}") for text in snapshot.frames_of(stack))
        for stack in np.unique(past.stack[begins]).tolist()
    }
    found = []
    for begin, end in zip(begins[same].tolist(), ends[same].tolist(), strict=True):
        if emptied[int(past.stack[begin])]:
            continue
        found.append(
            AllocatorRetry(
                entry=past.first + begin,
                ts_ns=int(past.ts[begin]) if past.ts is not None else None,
                num_segments=end - begin,
                freed_bytes=int(past.bytes[begin:end].sum()),
                wanted_bytes=int(past.bytes[end]) if takes[end] else None,
                frame=frames.name(int(past.stack[end])),
            )
        )
    return tuple(found)
