"""A trace as XSpace, the protobuf that XProf reads: a plane of the host's threads and one a device.

The messages are those of openxla's ``tsl/profiler/protobuf/xplane.proto``.  An event's name and the texts of its stats
are numbered in the metadata of its plane.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from profsuite.errors import ProfsuiteError
from profsuite.exporters.protobuf import BYTES, VARINT, delimited, number, tag, varint
from profsuite.exporters.rows import Op, Part, message, render
from profsuite.trace.classes import Role
from profsuite.trace.lanes import find_lanes
from profsuite.trace.readers.fields import NULL_INT64

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from profsuite.trace.model import Trace

_PLANE, _HOSTNAME = 1, 4
_PLANE_ID, _PLANE_NAME, _LINE, _EVENT_METADATA, _STAT_METADATA, _PLANE_STAT = 1, 2, 3, 4, 5, 6
_LINE_ID, _LINE_NAME, _LINE_START, _EVENT = 1, 2, 3, tag(4, BYTES)
_EVENT_NAME, _OFFSET, _DURATION, _STAT = tag(1, VARINT), tag(2, VARINT), tag(3, VARINT), tag(4, BYTES)
_INT_VALUE, _TEXT_VALUE, _REF_VALUE = tag(4, VARINT), 5, tag(7, VARINT)
_UINT_VALUE: Final = 3
HOST, SESSION = "/host:CPU", "Task Environment"
OVERLAP_IDS: Final = 1_000_000_001
"""From here on lines are numbered that the trace has not: no system numbers its threads so high."""


@dataclass(frozen=True, slots=True)
class Stat:
    """A stat of events: int64 values (null: ``NULL_INT64``), or codes (null: negative) of ``words``."""

    name: str
    values: NDArray[Any]
    words: list[str] | None = None


@dataclass
class _Numbers:
    """Numbers texts from 1 on."""

    known: dict[str, int] = field(default_factory=dict)

    def __call__(self, text: str) -> int:
        return self.known.setdefault(text, len(self.known) + 1)


@dataclass(frozen=True, slots=True)
class Lines:
    """The line of every slice, and of each line its plane (a device, -1: the host), id and name."""

    of: NDArray[np.int64]
    device: list[int]
    ids: list[int]
    names: list[str]


def xspace(trace: Trace, host: str) -> Iterator[bytes | memoryview]:
    """The bytes of an XSpace; ``ProfsuiteError`` where slices lie too far apart for its picoseconds."""
    lines = _lines(trace)
    stats = event_stats(trace)
    ts, dur = trace.array("slice", "ts"), trace.array("slice", "dur")
    session = int(ts.min()) if len(ts) else 0  # readers take times from the start of the session
    order = np.lexsort((-dur, ts, lines.of))
    bounds = np.searchsorted(lines.of[order], np.arange(len(lines.ids) + 1))
    for place, device in enumerate(sorted(set(lines.device) | {-1})):
        names, texts = _Numbers(), _Numbers()
        body: list[bytes | memoryview] = [
            number(_PLANE_ID, place + 1),
            delimited(_PLANE_NAME, (HOST if device < 0 else f"/device:GPU:{device}").encode()),
        ]
        for line in (i for i, of in enumerate(lines.device) if of == device):
            rows = order[bounds[line] : bounds[line + 1]]
            start = int(ts[rows].min())
            if int(ts[rows].max()) - session + int(dur[rows].max()) >= 2**63 // 1_000:
                raise ProfsuiteError("xprof: the trace is longer than the 106 days that fit into picoseconds")
            head = (
                number(_LINE_ID, lines.ids[line])
                + delimited(_LINE_NAME, _bytes(lines.names[line]))
                + number(_LINE_START, start - session)
            )
            events = _events(trace, rows, start, stats, names, texts)
            body += [tag(_LINE, BYTES) + varint(len(head) + len(events)) + head, events]
        body += [_metadata(_EVENT_METADATA, number_, text) for text, number_ in names.known.items()]
        body += [delimited(_PLANE_STAT, stat) for stat in _device_stats(trace, device, texts)]
        body += [_metadata(_STAT_METADATA, number_, text) for text, number_ in texts.known.items()]
        yield tag(_PLANE, BYTES) + varint(sum(map(len, body)))
        yield from body
    yield _session(trace, session)
    yield delimited(_HOSTNAME, _bytes(host))


def _session(trace: Trace, start: int) -> bytes:
    """The plane that says when the session began and ended, ns since the epoch, where that is known."""
    base = trace.info.base_time_ns
    end = int(trace.end.max(initial=start)) if len(trace.end) else start
    if base is None or not 0 <= base + start <= base + end < 2**63:
        return b""
    body = delimited(_PLANE_NAME, SESSION.encode())
    for place, (name, at) in enumerate((("profile_start_time", start), ("profile_stop_time", end)), 1):
        body += _metadata(_STAT_METADATA, place, name)
        body += delimited(_PLANE_STAT, number(1, place) + number(_UINT_VALUE, base + at))
    return delimited(_PLANE, body)


def _events(
    trace: Trace, rows: NDArray[np.int64], start: int, stats: list[Stat], names: _Numbers, texts: _Numbers
) -> memoryview:
    parts = [
        Part(
            Op.VARINT, _EVENT_NAME, _numbered(trace.array("slice", "name")[rows], trace.words("slice", "name"), names)
        ),
        Part(Op.VARINT, _OFFSET, (trace.array("slice", "ts")[rows] - start) * 1_000),
        Part(Op.VARINT, _DURATION, trace.array("slice", "dur")[rows] * 1_000),
    ]
    for stat in stats:
        values = stat.values[rows]
        if stat.words is not None:
            values = _numbered(values, stat.words, texts)
        if (values != NULL_INT64).any():
            value = _INT_VALUE if stat.words is None else _REF_VALUE
            parts.append(Part(Op.SIZED, _STAT + number(1, texts(stat.name)) + value, values))
    return render(len(rows), message(_EVENT, parts))


def _numbered(codes: NDArray[Any], words: list[str], numbers: _Numbers) -> NDArray[np.int64]:
    """The number of each row's word, null where it has none."""
    found, place = np.unique(codes, return_inverse=True)
    known = np.array([numbers(words[code]) if code >= 0 else NULL_INT64 for code in found.tolist()], np.int64)
    return known[place.reshape(-1)] if len(known) else np.zeros(0, np.int64)


def _metadata(what: int, key: int, name: str) -> bytes:
    """An entry of a plane's map of metadata."""
    return delimited(what, number(1, key) + delimited(2, number(1, key) + delimited(2, _bytes(name))))


# ---------------------------------------------------------------- what an event carries
def event_stats(trace: Trace) -> list[Stat]:
    """Stats under the names by which XProf joins events and finds kernels and steps, and the args of ops."""
    num = trace.num_rows("slice")

    def of(table: str, values: NDArray[Any], none: int) -> NDArray[np.int64]:
        found = np.full(num, none, np.int64)
        found[trace.array(table, "slice_id")] = values
        return found

    correlation = np.where(
        np.isin(trace.roles, (Role.LAUNCH, Role.KERNEL, Role.MEMCPY, Role.MEMSET))
        & (trace.array("slice", "correlation_id") > 0),
        trace.array("slice", "correlation_id"),
        NULL_INT64,
    )
    is_step = of("step", np.ones(trace.num_rows("step")), NULL_INT64)
    codes, details = _kernel_details(trace)
    operators = np.concatenate([trace.array(table, "op_id") for table in ("kernel", "memcpy")]).astype(np.int64)
    work = np.concatenate([trace.array(table, "slice_id") for table in ("kernel", "memcpy")])
    op = np.full(num, -1, np.int64)
    op[work] = np.where(operators >= 0, trace.array("slice", "name")[operators] if num else -1, -1)
    return [
        Stat("correlation_id", correlation),
        Stat("kernel_details", of("kernel", codes, -1), details),
        Stat("bytes", of("memcpy", trace.array("memcpy", "bytes"), NULL_INT64)),
        Stat("op", op, trace.words("slice", "name")),
        Stat("_r", is_step),
        Stat("step_num", of("step", trace.array("step", "number"), NULL_INT64)),
        *(
            Stat(title, of("op", trace.array("op", column), -1), trace.words("op", column))
            for title, column in (
                ("Input Dims", "input_dims"), ("Input type", "input_types"), ("Concrete Inputs", "concrete_inputs"),
                ("Call stack", "call_stack"),
            )
        ),
    ]  # fmt: skip


def _kernel_details(trace: Trace) -> tuple[NDArray[np.int64], list[str]]:
    """How kernels were launched, in the words of XLA's CUPTI tracer: codes of rows of ``kernel``, and texts.

    Static and dynamic shared memory are told apart there, which no trace of torch does: they are left out but for 0.
    """
    columns = [f"{what}_{axis}" for what in ("grid", "block") for axis in "xyz"]
    columns += ["registers_per_thread", "shared_memory_bytes"]
    cells = np.stack([trace.array("kernel", column) for column in columns], axis=1)
    percents, percent = np.unique(trace.array("kernel", "occupancy_pct"), return_inverse=True)
    cells = np.column_stack([cells, percent.reshape(-1)])
    found, codes = np.unique(cells, axis=0, return_inverse=True)
    texts = []
    for *sizes, registers, shared, place in found.tolist():
        parts = [] if registers == NULL_INT64 else [f"regs:{registers}"]
        parts += ["static_shared:0 dynamic_shared:0"] if shared == 0 else []
        for name, axes in (("grid", sizes[:3]), ("block", sizes[3:])):
            if NULL_INT64 not in axes:
                parts.append(f"{name}:{','.join(map(str, axes))}")
        parts += [f"occ_pct:{percents[place]:g}"] if np.isfinite(percents[place]) else []
        texts.append(" ".join(parts) or "unknown")
    return codes.reshape(-1).astype(np.int64), texts


def _device_stats(trace: Trace, device: int, texts: _Numbers) -> Iterator[bytes]:
    """What is known of a device."""
    known = next((each for each in trace.info.devices if device >= 0 and each.get("id") == device), {})
    for name, key in (
        ("core_count", "numSms"), ("memory_size", "totalGlobalMem"),
        ("compute_cap_major", "computeMajor"), ("compute_cap_minor", "computeMinor"),
    ):  # fmt: skip
        value = known.get(key)
        if type(value) is int and 0 <= value < 2**63:
            yield number(1, texts(name)) + _INT_VALUE + varint(value)
    title = known.get("name")
    if isinstance(title, str) and "nvidia" in title.lower():
        yield number(1, texts("device_vendor")) + delimited(_TEXT_VALUE, b"Nvidia")


# ---------------------------------------------------------------- lines
def _lines(trace: Trace) -> Lines:
    """A line for each track that has slices; what overlaps, or is mirrored onto a device, goes to a line of its own."""
    track = trace.array("slice", "track_id")
    mirrored = trace.roles == Role.DEVICE_ANNOTATION
    key = track * np.int32(2) + mirrored
    lane = find_lanes(key, trace.array("slice", "ts"), trace.array("slice", "dur"))
    width = int(lane.max(initial=0)) + 1
    found, of = np.unique(key.astype(np.int64) * width + lane, return_inverse=True)
    tracks = trace.tracks.select(["kind", "device", "stream", "tid", "thread_name"]).to_pylist()
    device, ids, names = [], [], []
    used: dict[int, set[int]] = {}
    for cell in found.tolist():
        (number_, extra), lane_ = divmod(cell // width, 2), cell % width
        row = tracks[number_]
        on_device = row["kind"] == "device"
        place = (row["device"] or 0) if on_device else -1
        name = (
            f"Stream #{row['stream']}" if on_device and row["stream"] is not None else row["thread_name"] or row["tid"]
        )
        name += (" annotations" if extra else "") + (f" (overlapping, {lane_})" if lane_ else "")
        plain = (
            row["stream"] if on_device else int(row["tid"]) if row["tid"].isdecimal() and len(row["tid"]) < 10 else None
        )
        taken = used.setdefault(place, set())
        if plain is None or extra or lane_ or plain in taken or not 0 <= plain < OVERLAP_IDS:
            plain = OVERLAP_IDS + len(taken)
        taken.add(plain)
        device.append(place)
        ids.append(plain)
        names.append(name)
    return Lines(of.reshape(-1), device, ids, names)


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "replace")
