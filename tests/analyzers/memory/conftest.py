"""Allocators by hand, pickled as torch does it."""

from __future__ import annotations

import pickle

import pytest

from profsuite.trace.readers.snapshot import read_snapshot

PLACES = (("forward", "model.py", 7), ("empty_cache", "/x/torch/cuda/memory.py", 222), ("loss", "loss.py", 3))
TRAIN, EMPTY, LOSS = (
    [{"name": name, "filename": file, "line": line}, {"name": "main", "filename": "train.py", "line": 90}]
    for name, file, line in PLACES
)


class Allocator:
    """A history under construction; every method adds one entry."""

    TRAIN, EMPTY, LOSS = TRAIN, EMPTY, LOSS

    def __init__(self):
        self.entries = []
        self.segments = []

    def entry(self, action, address, size, frames, **more):
        place = {"device_free": address} if action == "oom" else {"addr": address}
        found = {"action": action, **place, "size": size, "stream": 0, "time_us": len(self.entries), **more}
        self.entries.append(found | ({} if frames is None else {"frames": frames}))
        return self

    def alloc(self, address, size, frames=TRAIN):
        return self.entry("alloc", address, size, frames)

    def free(self, address, size, frames=TRAIN):
        return self.entry("free_requested", address, size, frames).entry("free_completed", address, size, frames)

    def take(self, address, size, frames=TRAIN):
        return self.entry("segment_alloc", address, size, frames)

    def give(self, address, size, frames=TRAIN):
        return self.entry("segment_free", address, size, frames)

    def fail(self, size, free=0, frames=TRAIN):
        return self.entry("oom", free, size, frames)

    def segment(self, address, *blocks, expandable=False, frames=()):
        """Blocks are (bytes, requested or None for a free one)."""
        made, at = [], address
        for size, asked in blocks:
            state = "inactive" if asked is None else "active_allocated"
            made.append(
                {"address": at, "size": size, "requested_size": asked or 0, "state": state, "frames": list(frames)}
            )
            at += size
        self.segments.append(
            {"device": 0, "address": address, "total_size": at - address, "stream": 0, "segment_type": "large",
             "segment_pool_id": (0, 0), "is_expandable": expandable, "frames": [], "blocks": made}
        )  # fmt: skip
        return self

    def snapshot(self, folder):
        path = folder / "snapshot.pickle"
        path.write_bytes(pickle.dumps({"segments": self.segments, "device_traces": [self.entries]}))
        return read_snapshot(path)


@pytest.fixture
def allocator():
    """An empty ``Allocator``."""
    return Allocator()
