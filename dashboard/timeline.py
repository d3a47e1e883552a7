"""What the timeline asks the server for: its tracks, tiles, sums of a selection, search."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, Final

import msgspec
import numpy as np

from profsuite.analyzers.places import thread_label
from profsuite.dashboard.busy import device_busy, host_busy
from profsuite.dashboard.kinds import KINDS, OVERHEAD
from profsuite.dashboard.quantities import unit_text
from profsuite.trace.classes import Role
from profsuite.trace.intervals import merge_by_group

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from profsuite.dashboard.store import Session
    from profsuite.dashboard.tiles import Pyramid
    from profsuite.trace.model import Trace

MOST_LANES: Final = 2_000
MOST_FOUND: Final = 1_000
MOST_NAMES: Final = 50
OVERVIEW_BINS: Final = 800


def tracks(session: Session) -> dict[str, Any]:
    """Everything about the timeline that does not change with the view: tracks with their lanes, steps, overview.

    Times are ns since ``origin_ns`` (the start of the recording, itself a string: it may pass 2**53).
    """
    trace, pyramid = session.trace, session.pyramid
    lanes = pyramid.lanes
    kinds = trace.tracks.column("kind").to_pylist()
    found = []
    for track in np.unique(lanes.track).tolist():
        mine = np.flatnonzero(lanes.track == track)
        own = kinds[track] == "other" and _is_overhead(session, mine)
        found.append(
            {
                "track": track,
                "label": _label(trace, track, kinds[track], own),
                "group": _group(trace, track, kinds[track], own),
                "kind": kinds[track],
                "lanes": mine.tolist(),
                "num_missing": int(lanes.missing[track]),
                "num_slices": int((lanes.first[mine + 1] - lanes.first[mine]).sum()),
            }
        )
    main = session.main_track
    first = next((t["group"] for t in found if t["track"] == main), None)
    found.sort(
        key=lambda t: (
            _ORDER.get(t["kind"], 2), t["group"] != first, t["group"], t["track"] != main, -t["num_slices"]
        )
    )  # fmt: skip
    step_start = trace.array("step", "ts") - pyramid.start_ns
    numbers = trace.array("step", "number")
    return {
        "origin_ns": str(pyramid.start_ns),
        "length_ns": pyramid.end_ns - pyramid.start_ns,
        "tracks": found,
        "num_hidden": lanes.num_hidden,
        "categories": trace.words("slice", "category"),
        "kinds": _kinds(session),
        "steps": [
            {"number": n, "start_ns": s, "dur_ns": d}
            for n, s, d in zip(numbers.tolist(), step_start.tolist(), trace.array("step", "dur").tolist(), strict=True)
        ],
        "overview": _overview(trace, pyramid),
        "counters": [
            {
                "counter": number,
                "label": f"{series.counter}: {series.name}",
                "unit": unit_text(series.counter, series.name),
            }
            for number, series in enumerate(session.series)
        ],
    }


_ORDER: Final = {"host": 0, "device": 1}


def _is_overhead(session: Session, lanes: NDArray[np.int64]) -> bool:
    """Whether some lanes hold the profiler's own overhead and nothing else: Kineto has it in a process -1."""
    first, slices = session.pyramid.lanes.first, session.pyramid.lanes.slice_id
    return all((session.kinds[slices[first[k] : first[k + 1]]] == OVERHEAD).all() for k in lanes.tolist())


def _kinds(session: Session) -> list[dict[str, Any]]:
    """The kinds that are drawn."""
    counts = np.bincount(session.kinds, minlength=len(KINDS))
    counts[-1] -= np.count_nonzero(session.trace.roles == Role.SPAN)
    return [{"kind": code, "name": KINDS[code]} for code in np.flatnonzero(counts).tolist()]


def _label(trace: Trace, track: int, kind: str, is_overhead: bool) -> str:
    row = trace.tracks.slice(track, 1).to_pylist()[0]
    if kind == "device":
        stream = row["stream"]
        return f"stream {row['tid'] if stream is None else stream}"
    if is_overhead and not row["thread_name"]:
        return "overhead" if row["tid"] in ("0", "-1", "") else f"overhead, thread {row['tid']}"
    return thread_label(trace, track)


def _group(trace: Trace, track: int, kind: str, is_overhead: bool) -> str:
    row = trace.tracks.slice(track, 1).to_pylist()[0]
    if kind == "device":
        return f"GPU {row['device'] if row['device'] is not None else row['pid']}"
    name = row["process_name"]
    if is_overhead and not name:
        return "profiler" if row["pid"] == "-1" else f"profiler, process {row['pid']}"
    return f"{name} {row['pid']}" if name and str(row["pid"]) not in str(name) else f"process {row['pid']}"


def _overview(trace: Trace, pyramid: Pyramid) -> dict[str, list[float]]:
    """How busy host and devices are over the whole recording, where the recording says."""
    about = trace, pyramid.start_ns, pyramid.end_ns, min(OVERVIEW_BINS, max(1, pyramid.end_ns - pyramid.start_ns))
    found = {"host": host_busy(*about), "device": device_busy(*about)}
    return {kind: np.round(busy, 4).tolist() for kind, busy in found.items() if busy is not None}


def counter(session: Session, number: int, start_ns: int, end_ns: int, width: int) -> dict[str, Any]:
    """One series within a stretch of time: lowest and highest value of each pixel, times ns since the origin.

    ``IndexError`` for a number that does not exist.
    """
    origin = session.pyramid.start_ns
    ts, low, high = session.series[number].view(start_ns + origin, end_ns + origin, width)
    return {"ts": (ts - origin).tolist(), "min": low.tolist(), "max": high.tolist()}


def tile(session: Session, wanted: list[int], start_ns: int, end_ns: int, width: int) -> bytes:
    """The items of some lanes within a stretch of time (ns since the origin), as a browser reads them fastest.

    Little endian: the length of a JSON text (uint32, the text padded to 8 bytes), that text, then for all items
    start and end (float64 each, ns since the origin, exact below 2**53), slice, count, name, category (int32 each),
    kind (uint8, a code in ``KINDS``).
    The JSON has ``lane_first`` (as ``View``), ``names`` (by name number) and ``resolution_ns``.
    """
    trace, pyramid = session.trace, session.pyramid
    lanes = np.array(wanted[:MOST_LANES], np.int64)
    lanes = lanes[(lanes >= 0) & (lanes < len(pyramid.lanes.track))]
    origin = pyramid.start_ns
    view = pyramid.view(lanes, start_ns + origin, end_ns + origin, width)
    name = trace.array("slice", "name")[view.slice_id]
    category = trace.array("slice", "category")[view.slice_id]
    words = trace.words("slice", "name")
    head = msgspec.json.encode(
        {
            "lanes": lanes.tolist(),
            "lane_first": view.lane_first.tolist(),
            "resolution_ns": view.resolution_ns,
            "names": {str(code): words[code] for code in np.unique(name).tolist()},
        }
    )
    head += b" " * (-(len(head) + 4) % 8)
    columns: list[NDArray[Any]] = [
        (view.start - origin).astype("<f8"),
        (view.end - origin).astype("<f8"),
        view.slice_id.astype("<i4"),
        view.count.astype("<i4"),
        name.astype("<i4"),
        category.astype("<i4"),
        session.kinds[view.slice_id],
    ]
    return struct.pack("<I", len(head)) + head + b"".join(column.tobytes() for column in columns)


def selection(session: Session, chosen: list[int], start_ns: int, end_ns: int) -> dict[str, Any]:
    """What some tracks did within a stretch of time: count and time by category and by name, the most first.

    ``total_ns`` of a slice is the part of it inside; ``self_ns`` what of that part its children do not cover.
    """
    trace, origin = session.trace, session.pyramid.start_ns
    low, high = start_ns + origin, end_ns + origin
    start, end = trace.array("slice", "ts"), trace.end
    tracks_of = trace.array("slice", "track_id")
    wanted = np.zeros(trace.num_rows("track"), bool)
    wanted[[t for t in chosen if 0 <= t < len(wanted)]] = True
    rows = np.flatnonzero((start < high) & (end > low) & wanted[tracks_of])
    inside = np.minimum(end[rows], high) - np.maximum(start[rows], low)
    own = _self_inside(trace, rows, inside, low, high)
    return {
        "dur_ns": end_ns - start_ns,
        "num_slices": len(rows),
        "categories": _sums(trace, "category", rows, inside, own),
        "names": _sums(trace, "name", rows, inside, own)[:MOST_NAMES],
    }


def _self_inside(
    trace: Trace, rows: NDArray[np.int64], inside: NDArray[np.int64], low: int, high: int
) -> NDArray[np.int64]:
    """What their children leave of the part ``inside`` the stretch of slices that reach into it."""
    start, end = trace.array("slice", "ts"), trace.end
    own = trace.array("slice", "self_dur")[rows]
    cut = np.flatnonzero((start[rows] < low) | (end[rows] > high))
    # Few reach beyond the stretch, and a child that does not reach into it covers nothing of it.
    number = np.full(trace.num_rows("slice") + 1, -1, np.int32)  # the last is for those without a parent
    number[rows[cut]] = np.arange(len(cut))
    place = number[trace.array("slice", "parent_id")[rows]]
    children = rows[place >= 0]
    parent, begins, ends = merge_by_group(
        place[place >= 0], np.maximum(start[children], low), np.minimum(end[children], high)
    )
    covered = np.zeros(len(cut), np.int64)
    np.add.at(covered, parent, ends - begins)
    own[cut] = inside[cut] - covered
    return own


def _sums(
    trace: Trace, column: str, rows: NDArray[np.int64], inside: NDArray[np.int64], own: NDArray[np.int64]
) -> list[dict[str, Any]]:
    words = trace.words("slice", column)
    codes, number = np.unique(trace.array("slice", column)[rows], return_inverse=True)
    total, alone = np.zeros(len(codes), np.int64), np.zeros(len(codes), np.int64)
    np.add.at(total, number, inside)
    np.add.at(alone, number, own)
    count = np.bincount(number, minlength=len(codes))
    order = np.argsort(-total, kind="stable")
    return [
        {
            column: words[codes[i]],
            "count": int(count[i]),
            "total_ns": int(total[i]),
            "self_ns": int(alone[i]),
        }
        for i in order.tolist()
    ]


def search(session: Session, text: str) -> dict[str, Any]:
    """Slices whose name holds ``text`` (case does not matter): the first ``MOST_FOUND``, and how many there are."""
    trace, origin = session.trace, session.pyramid.start_ns
    wanted = text.casefold()
    match = np.array([wanted in word.casefold() for word in trace.words("slice", "name")] or [False])
    rows = np.flatnonzero(match[trace.array("slice", "name")])
    start = trace.array("slice", "ts")[rows]
    order = np.argsort(start, kind="stable")[:MOST_FOUND]
    dur = trace.array("slice", "dur")[rows]
    return {
        "num_found": len(rows),
        "total_ns": int(dur.sum()),
        "slices": [
            {"slice_id": int(rows[i]), "start_ns": int(start[i]) - origin, "dur_ns": int(dur[i])}
            for i in order.tolist()
        ],
    }
