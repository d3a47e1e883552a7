"""A timeline's pyramid in a file beside the cached trace: written once, then mapped, so that it is there at once.

Little endian: the length of a JSON text (uint64), that text, then arrays, each from a multiple of 64 bytes on.  The
text has what is not an array, and the arrays' lengths.  Nothing in it is trusted: what does not fit is not used.
"""

from __future__ import annotations

import json
import struct
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from profsuite.dashboard.lanes import Lanes
from profsuite.dashboard.tiles import Items, Merged, Pyramid, Slices

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from profsuite.trace.model import Trace

    Array = NDArray[Any]

NAME: Final = "timeline.2.bin"
"""The number rises whenever what is in the file changes."""
_LANES: Final = {"slice_id": "<i4", "first": "<i8", "track": "<i8", "level": "<i8", "missing": "<i8"}
_ITEMS: Final = {"start": "<i8", "end": "<i8", "busy": "<i8", "slice_id": "<i4", "count": "<i4"}
_ALIGNED: Final = 64


def keep(pyramid: Pyramid, folder: Path) -> None:
    """Write it; failures are silent, as the cache's are."""
    merged = [level for level in pyramid.levels if isinstance(level, Merged)]
    arrays = [np.asarray(getattr(pyramid.lanes, name), kind) for name, kind in _LANES.items()]
    for level in merged:
        arrays.append(np.asarray(level.first, "<i8"))
        arrays += [np.asarray(getattr(level.all, name), kind) for name, kind in _ITEMS.items()]
    head = json.dumps(
        {
            "start_ns": pyramid.start_ns,
            "end_ns": pyramid.end_ns,
            "num_hidden": pyramid.lanes.num_hidden,
            "resolutions_ns": [level.resolution_ns for level in merged],
            "lengths": [len(array) for array in arrays],
        }
    ).encode()
    with suppress(OSError):
        with tempfile.NamedTemporaryFile(dir=folder, prefix=".timeline.", delete=False) as sink:
            sink.write(struct.pack("<Q", len(head)) + head)
            for array in arrays:
                sink.write(b"\0" * (-sink.tell() % _ALIGNED))
                sink.write(array.tobytes())
        Path(sink.name).replace(folder / NAME)


def kept(trace: Trace, folder: Path) -> Pyramid | None:
    """The pyramid of a trace that is kept in a folder; null where there is none, or it is damaged or another's."""
    try:
        data = np.memmap(folder / NAME, np.uint8, "r")
        size = struct.unpack("<Q", bytes(data[:8]))[0]
        head = json.loads(bytes(data[8 : 8 + min(size, 1 << 20)]))
        lengths = [int(length) for length in head["lengths"]]
        _check(len(lengths) == len(_LANES) + (1 + len(_ITEMS)) * len(head["resolutions_ns"]), "lengths")
        return _read(trace, head, _arrays(data, 8 + size, lengths))
    except (OSError, ValueError, KeyError, TypeError, struct.error, RecursionError):
        return None


def _arrays(data: Array, at: int, lengths: list[int]) -> Iterator[Array]:
    """The arrays one after the other; ``ValueError`` where the file ends before."""
    kinds = [*_LANES.values(), *(("<i8", *_ITEMS.values()) * len(lengths))]
    for length, kind in zip(lengths, kinds, strict=False):
        at += -at % _ALIGNED
        end = at + length * np.dtype(kind).itemsize
        if length < 0 or end > len(data):
            raise ValueError("it is cut off")
        yield np.asarray(data[at:end]).view(kind)
        at = end


def _read(trace: Trace, head: dict[str, Any], arrays: Iterator[Array]) -> Pyramid:
    slice_id, first, track, level, missing = (next(arrays) for _ in _LANES)
    _check(len(track) == len(level) == len(first) - 1 and len(missing) == trace.num_rows("track"), "lanes")
    _check(not len(track) or 0 <= int(track.min()) <= int(track.max()) < trace.num_rows("track"), "tracks")
    _check_items(first, len(track), slice_id, trace.num_rows("slice"))
    levels: list[Slices | Merged] = [Slices(trace, slice_id, first)]
    before = 1
    for resolution in head["resolutions_ns"]:
        _check(type(resolution) is int and resolution > before, "resolutions")
        before = resolution
        firsts, *columns = (next(arrays) for _ in range(1 + len(_ITEMS)))
        items = Items(*columns)
        _check(len({len(column) for column in columns}) == 1, "items")
        _check_items(firsts, len(track), items.slice_id, trace.num_rows("slice"))
        levels.append(Merged(resolution, items, firsts))
    lanes = Lanes(slice_id, first, track, level, missing, int(head["num_hidden"]))
    return Pyramid(lanes, levels, int(head["start_ns"]), int(head["end_ns"]))


def _check_items(first: Array, num_lanes: int, slice_id: Array, num_slices: int) -> None:
    _check(len(first) == num_lanes + 1 and first[0] == 0 and first[-1] == len(slice_id), "items")
    _check(bool((np.diff(first) >= 0).all()), "items")
    _check(not len(slice_id) or 0 <= int(slice_id.min()) <= int(slice_id.max()) < num_slices, "slices")


def _check(holds: bool, what: str) -> None:
    if not holds:
        raise ValueError(f"the {what} do not fit")
