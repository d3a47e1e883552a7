"""What the slices of an XLA profile (JAX, TensorFlow) are: planes and lines say it, no event has a category.

``describe`` gives them the categories that Kineto would, so that everything after it knows one kind of trace:

* a host's line is a thread; its TraceMe marks are ops, calls that carry a correlation id launches, ``$file.py:1 f``
  Python functions, what has a ``step_num`` a step;
* a GPU's streams hold its work; lines that XLA derives from them (XLA Ops, XLA Modules, Steps) are annotations;
* a device without streams (TPU) works on the innermost instructions of ``XLA Ops`` and of ``Async XLA Ops``;
* on the CPU, instructions run on the host's threads: they move to a device of their own, ``/device:CPU:0``.

The latency-hiding scheduler splits a collective into a start and a done.  Where the recorder has no slice for what
lies between, one is made from the start's begin to the done's end: what other instructions hide of it is hidden, the
rest is exposed.  The halves themselves become annotations.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from profsuite.trace.columns import gather, null_of, strings
from profsuite.trace.joins import distinct
from profsuite.trace.readers.fields import NULL_INT64
from profsuite.trace.readers.hlo import base_name, collective_of, half_of
from profsuite.trace.tracks import DEVICE_PLANE

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from profsuite.trace.readers.raw import RawTrace

    Columns = dict[str, NDArray[Any]]

PLANE: Final = re.compile(r"/(?:host|device):\S.*")
STREAM: Final = re.compile(r"Stream #(\d{1,9})\b.*")
WORK_LINES: Final = ("XLA Ops", "Async XLA Ops")
ASYNC_LINE: Final = "Async XLA Ops"
STEP_LINE: Final = "Steps"
PAIRED: Final = "Async XLA Ops (start to done)"
"""Name of the track of the slices that are made."""

_HOST, _STREAM, _OPS, _ASYNC, _STEPS, _DERIVED, _NONE = range(7)
_COPY: Final = re.compile(r"(?:copy|slice|dynamic-slice|dynamic-update-slice)(?:-start|-done)?")
_DETAIL: Final = re.compile(r"(\w+):([^\s]+)")


@dataclass(slots=True)
class _Trace:
    """The raw trace while its slices are described; ``at`` is the row of ``xla`` of each slice, ``name`` its words."""

    raw: RawTrace
    groups: dict[str, Columns]
    pools: dict[str, list[str]]
    tracks: list[tuple[str, str]]
    process: list[str]
    thread: list[str]
    line: NDArray[np.int8]
    device: NDArray[np.int64]
    stream: NDArray[np.int64]
    at: NDArray[np.int32]
    blank: NDArray[np.bool_]

    def code(self, pool: str, word: str) -> int:
        """The code of a word, which joins the pool if it is new."""
        words = self.pools[pool]
        try:
            return words.index(word)
        except ValueError:
            words.append(word)
            return len(words) - 1

    def rows(self, *lines: int) -> NDArray[np.intp]:
        """Slices without a category on lines of these kinds."""
        return np.flatnonzero(self.blank & np.isin(self.line[self.groups["slice"]["track"]], lines))

    def categorise(self, rows: NDArray[np.intp], category: str) -> None:
        """Give slices a category."""
        if len(rows):
            self.groups["slice"]["category"][rows] = self.code("category", category)
            self.blank[rows] = False

    def xla(self, column: str, rows: NDArray[np.intp]) -> NDArray[Any]:
        """A column of ``xla`` for slices, null where they have no row."""
        return gather(self.groups["xla"][column], self.at[rows])

    def append(self, group: str, columns: Columns) -> None:
        """Add rows to a group; columns that are not given are null."""
        num = len(next(iter(columns.values())))
        old = self.groups[group]
        self.groups[group] = {
            name: np.concatenate(
                (values, columns[name].astype(values.dtype) if name in columns else np.full(num, null_of(values.dtype),
                                                                                           values.dtype))
            )
            for name, values in old.items()
        }  # fmt: skip


def describe(raw: RawTrace, process: Sequence[str | None], thread: Sequence[str | None]) -> RawTrace:
    """The raw trace with categories, or as it is if it comes from no XLA profiler.

    ``process`` and ``thread`` are the names of each track.
    """
    planes = [bool(PLANE.fullmatch(name or "")) for name in process]
    if not any(planes):
        return raw
    slices = raw.groups["slice"]
    empty = np.array([not word for word in raw.pools["category"].to_pylist()] + [True], bool)
    blank = empty[slices["category"]] & np.append(np.array(planes, bool), False)[slices["track"]]
    if not blank.any():
        return raw
    at = np.full(len(slices["ts"]), -1, np.int32)
    at[raw.groups["xla"]["row"]] = np.arange(len(raw.groups["xla"]["row"]), dtype=np.int32)
    line, device, stream = _lines([name or "" for name in process], [name or "" for name in thread])
    trace = _Trace(
        raw,
        {group: dict(columns) for group, columns in raw.groups.items()},
        {pool: [word or "" for word in raw.pools[pool].to_pylist()] for pool in _CHANGED},
        list(raw.tracks), [name or "" for name in process], [name or "" for name in thread],
        line, device, stream, at, blank,
    )  # fmt: skip
    trace.groups["slice"]["category"] = slices["category"].copy()
    trace.groups["slice"]["track"] = slices["track"].copy()
    _cpu_instructions(trace)
    _host(trace)
    _streams(trace)
    _instructions(trace)
    _steps(trace)
    trace.categorise(trace.rows(_DERIVED), "gpu_user_annotation")
    pools = {**raw.pools, **{pool: strings(words) for pool, words in trace.pools.items()}}
    return _without_end(replace(raw, groups=trace.groups, pools=pools, tracks=trace.tracks))


_SHORTEST_EVENT: Final = len('{"ph":"M"}')


def _without_end(raw: RawTrace) -> RawTrace:
    """The trace without the remark on ``{}``, which XLA puts after its last event: too near the end to be an event."""
    dropped = [each for each in raw.remarks if each.kind == "dropped"]
    if len(dropped) != 1 or dropped[0].count != 1 or dropped[0].byte_offset is None:
        return raw
    if raw.num_bytes - dropped[0].byte_offset >= _SHORTEST_EVENT:
        return raw
    remarks = [each for each in raw.remarks if each is not dropped[0]]
    return replace(raw, remarks=remarks, num_events=raw.num_events - 1)


_CHANGED: Final = ("name", "category", "collective", "misc", "meta_name", "meta_key", "meta_value")


def _lines(
    process: Sequence[str], thread: Sequence[str]
) -> tuple[NDArray[np.int8], NDArray[np.int64], NDArray[np.int64]]:
    """What each track holds, and its device and stream."""
    num = len(process)
    line = np.full(num, _NONE, np.int8)
    device, stream = np.full(num, NULL_INT64, np.int64), np.full(num, NULL_INT64, np.int64)
    streamed = {name for name, text in zip(process, thread, strict=True) if STREAM.fullmatch(text)}
    for i, (name, text) in enumerate(zip(process, thread, strict=True)):
        if found := DEVICE_PLANE.fullmatch(name):
            device[i] = int(found[1])
            if named := STREAM.fullmatch(text):
                line[i], stream[i] = _STREAM, int(named[1])
            elif text == STEP_LINE:
                line[i] = _STEPS
            elif text in WORK_LINES and name not in streamed:
                line[i], stream[i] = _ASYNC if text == ASYNC_LINE else _OPS, i
            else:
                line[i] = _DERIVED
        elif name.startswith("/host:"):
            line[i] = _HOST
        elif PLANE.fullmatch(name):
            line[i] = _DERIVED
    return line, device, stream


def _words(trace: _Trace, pool: str, test: Callable[[str], Any]) -> NDArray[Any]:
    """``test`` of every word of a pool, and of none at the end."""
    return np.array([*(test(word) for word in trace.pools[pool]), test("")])


# ---------------------------------------------------------------- hosts
def _host(trace: _Trace) -> None:
    rows = trace.rows(_HOST)
    slices = trace.groups["slice"]
    python = _words(trace, "name", lambda name: name.startswith("$"))[slices["name"][rows]]
    launch = slices["correlation"][rows] != NULL_INT64
    step = trace.xla("step", rows) != NULL_INT64
    trace.categorise(rows, "cpu_op")
    trace.categorise(rows[python], "python_function")
    trace.categorise(rows[launch & ~python], "cuda_runtime")
    trace.categorise(rows[step], "user_annotation")


def _cpu_instructions(trace: _Trace) -> None:
    """Instructions on a host's threads go to tracks of devices, where no device has work of its own."""
    slices = trace.groups["slice"]
    if len(trace.rows(_STREAM, _OPS, _ASYNC)):
        return
    rows = trace.rows(_HOST)
    runs = (trace.xla("hlo_op", rows) >= 0) & (slices["correlation"][rows] == NULL_INT64)
    rows = rows[runs]
    if not len(rows):
        return
    ordinal = trace.xla("device", rows)
    ordinal = np.where((ordinal < 0) | (ordinal > 9999), 0, ordinal)
    old = slices["track"][rows]
    pairs, which = distinct(ordinal, old)
    new = np.array([_add_track(trace, f"/device:CPU:{n}", trace.thread[t], t, n, _OPS) for n, t in pairs.tolist()])
    slices["track"][rows] = new[which]


def _add_track(trace: _Trace, process: str, thread: str, like: int, device: int, line: int) -> int:
    """The number of a new track, named as an event of metadata would."""
    place = (process, trace.tracks[like][1])
    if place in trace.tracks:
        place = (process, f"{place[1]} {len(trace.tracks)}")
    track = len(trace.tracks)
    trace.tracks.append(place)
    trace.process.append(process)
    trace.thread.append(thread)
    trace.line = np.append(trace.line, np.int8(line))
    trace.device = np.append(trace.device, device)
    trace.stream = np.append(trace.stream, track)
    names = (("process_name", process), ("thread_name", thread))
    trace.append("meta", {
        "name": np.array([trace.code("meta_name", event) for event, _ in names]),
        "track": np.array([track] * 2),
        "key": np.array([trace.code("meta_key", "name")] * 2),
        "value": np.array([trace.code("meta_value", text) for _, text in names]),
    })  # fmt: skip
    return track


# ---------------------------------------------------------------- devices
def _streams(trace: _Trace) -> None:
    """Kernels, copies and fills on the streams of GPUs."""
    rows = trace.rows(_STREAM)
    if not len(rows):
        return
    names = trace.groups["slice"]["name"][rows]
    copy = _words(trace, "name", lambda name: name.lower().startswith("memcpy"))[names]
    fill = _words(trace, "name", lambda name: name.lower().startswith("memset"))[names]
    trace.categorise(rows[copy], "gpu_memcpy")
    trace.categorise(rows[fill], "gpu_memset")
    kernels = rows[~copy & ~fill]
    trace.categorise(kernels, "kernel")
    _place(trace, rows)
    _communicate(trace, kernels)


def _instructions(trace: _Trace) -> None:
    """Work on the lines of instructions: what holds no other, and what lies between a start and its done."""
    rows = trace.rows(_OPS, _ASYNC)
    if not len(rows):
        return
    slices = trace.groups["slice"]
    rows = rows[~_containers(trace, rows)]
    opcode = _opcodes(trace, rows)
    is_async = trace.line[slices["track"][rows]] == _ASYNC
    copy = is_async & np.array([bool(_COPY.fullmatch(word)) for word in opcode[0]] or [False])[opcode[1]]
    start, done, split = _halves(trace, rows, opcode)
    work = rows[~split]
    trace.categorise(work[copy[~split]], "gpu_memcpy")
    trace.categorise(work[~copy[~split]], "kernel")
    _place(trace, work)
    _communicate(trace, work[~copy[~split]])
    trace.categorise(trace.rows(_OPS, _ASYNC), "gpu_user_annotation")
    if len(start):
        _span(trace, rows[start], rows[done])
    # What is neither work nor a half holds other instructions: it is an annotation around them.


def _containers(trace: _Trace, rows: NDArray[np.intp]) -> NDArray[np.bool_]:
    """Which of these slices hold another of them: loops, calls and conditionals around their instructions.

    Asynchronous operations hold none: they run at the same time.
    """
    slices = trace.groups["slice"]
    track, ts, dur = (slices[name][rows] for name in ("track", "ts", "dur"))
    holds = np.zeros(len(rows), bool)
    nested = np.flatnonzero((trace.line[track] == _OPS) & (dur > 0))
    track, ts, dur = track[nested], ts[nested], dur[nested]
    order = np.lexsort((nested, -dur, ts, track))
    track, ts, end = track[order], ts[order], (ts + dur)[order]
    inside = (track[1:] == track[:-1]) & (end[1:] <= end[:-1]) & (ts[1:] < end[:-1])
    holds[nested[order[:-1][inside]]] = True
    return holds


def _opcodes(trace: _Trace, rows: NDArray[np.intp]) -> tuple[list[str], NDArray[np.intp]]:
    """Distinct opcodes, and the one of each slice: of its module, else what its own name begins with."""
    known, op = trace.xla("opcode", rows), trace.xla("hlo_op", rows)
    name = trace.groups["slice"]["name"][rows]
    keys, which = distinct(known, op, name)
    misc, names = trace.pools["misc"], trace.pools["name"]
    words = []
    for code, hlo_op, own in keys.tolist():
        if code >= 0:
            words.append(misc[code])
        else:
            words.append(base_name(misc[hlo_op] if hlo_op >= 0 else names[own] if own >= 0 else ""))
    return words, which


def _halves(
    trace: _Trace, rows: NDArray[np.intp], opcode: tuple[list[str], NDArray[np.intp]]
) -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.bool_]]:
    """Starts and dones of collectives that belong together (indices into ``rows``), and which rows are halves.

    Belonging together is: one device, one module, one name but for ``start`` and ``done``, the done next after the
    start.  On a device whose line of asynchronous operations has the collectives, these are the slices of them, and
    the halves elsewhere are no work.
    """
    words, which = opcode
    side = np.array([0 if collective_of(word) is None else {"start": 1, "done": 2, None: 0}[half_of(word)]
                     for word in words] or [0])[which]  # fmt: skip
    half = np.flatnonzero(side > 0)
    none = np.zeros(0, np.intp)
    split = np.zeros(len(rows), bool)
    if not len(half):
        return none, none, split
    slices = trace.groups["slice"]
    track = slices["track"][rows[half]]
    device = trace.device[track]
    recorded = trace.line[track] == _ASYNC
    has_line = np.isin(device, device[recorded & (side[half] == 1)])
    texts = _names(trace, rows[half])
    keys = np.array(
        [re.sub(r"-(?:start|done)", "", text.partition(" = ")[0].lstrip("%")) for text in texts[0]] or [""]
    )[texts[1]]
    _, key = np.unique(keys, return_inverse=True)
    module = trace.xla("module", rows[half])
    order = np.lexsort((side[half], slices["ts"][rows[half]], key, module, recorded, device))
    ordered = half[order]
    same = np.ones(max(0, len(order) - 1), bool)
    for values in (device, recorded, module, key):
        same &= values[order][1:] == values[order][:-1]
    pair = np.flatnonzero(same & (side[ordered][:-1] == 1) & (side[ordered][1:] == 2))
    start, done = ordered[pair], ordered[pair + 1]
    split[start] = split[done] = True
    elsewhere = has_line & ~recorded
    split[half[elsewhere]] = True
    made = ~np.isin(start, half[elsewhere])
    return start[made], done[made], split


def _names(trace: _Trace, rows: NDArray[np.intp]) -> tuple[list[str], NDArray[np.intp]]:
    """Distinct names of instructions, and the one of each slice."""
    op, name = trace.xla("hlo_op", rows), trace.groups["slice"]["name"][rows]
    keys, which = distinct(op, name)
    misc, names = trace.pools["misc"], trace.pools["name"]
    words = [misc[code] if code >= 0 else names[own] if own >= 0 else "" for code, own in keys.tolist()]
    return words, which


def _span(trace: _Trace, start: NDArray[np.intp], done: NDArray[np.intp]) -> None:
    """A slice from the begin of each start to the end of its done, on a track of the device, with the start's facts."""
    slices = trace.groups["slice"]
    ts, end = slices["ts"][start], slices["ts"][done] + slices["dur"][done]
    old = slices["track"][start]
    tracks = {}
    for track in np.unique(old).tolist():
        place = trace.process[track]
        if place not in tracks:
            tracks[place] = _add_track(trace, place, PAIRED, track, int(trace.device[track]), _ASYNC)
    first = len(slices["ts"])
    rows = np.arange(first, first + len(start), dtype=np.int64)
    trace.append("slice", {
        "ts": ts, "dur": end - ts, "name": slices["name"][start], "offset": slices["offset"][start],
        "track": np.array([tracks[trace.process[track]] for track in old.tolist()]),
        "category": np.full(len(start), trace.code("category", "kernel")),
    })  # fmt: skip
    trace.blank = np.append(trace.blank, np.zeros(len(start), bool))
    for group in ("xla", "collective"):
        columns = trace.groups[group]
        at = np.full(first, -1, np.int64)
        at[columns["row"]] = np.arange(len(columns["row"]))
        told = at[start] >= 0
        copied = {name: values[at[start[told]]] for name, values in columns.items()}
        trace.append(group, {**copied, "row": rows[told]})
        if group == "collective":
            halves = np.isin(trace.groups[group]["row"], np.concatenate((start, done)))
            trace.groups[group] = {name: values[~halves] for name, values in trace.groups[group].items()}
    trace.at = np.append(trace.at, np.full(len(start), -1, np.int32))
    trace.at[trace.groups["xla"]["row"]] = np.arange(len(trace.groups["xla"]["row"]), dtype=np.int32)
    _place(trace, rows)
    _communicate(trace, rows)


def _place(trace: _Trace, rows: NDArray[np.intp]) -> None:
    """Rows of ``gpu``: device and stream of work, and what the details say of kernels and copies."""
    if not len(rows):
        return
    track = trace.groups["slice"]["track"][rows]
    columns: Columns = {"row": rows, "device": trace.device[track], "stream": trace.stream[track]}
    misc = trace.pools["misc"]
    for column in ("kernel_details", "transfer_details"):
        codes, which = np.unique(trace.xla(column, rows), return_inverse=True)
        details = [_details(misc[code]) if code >= 0 else {} for code in codes.tolist()]
        for name in {name for each in details for name in each}:
            is_real = name == "occupancy"
            null = float("nan") if is_real else NULL_INT64
            values = np.array([each.get(name, null) for each in details], np.float64 if is_real else np.int64)
            columns[name] = values[which.ravel()]
    known = np.isin(rows, trace.groups["gpu"]["row"])
    trace.append("gpu", {name: values[~known] for name, values in columns.items()})
    trace.groups["gpu"] = _by_row(trace.groups["gpu"])


def _details(text: str) -> dict[str, float]:
    """Numbers of a kernel or copy from ``regs:16 static_shared:0 grid:1,1,1 block:32,1,1 occ_pct:50`` and the like."""
    found: dict[str, float] = {}
    told = dict(_DETAIL.findall(text))

    def whole(key: str) -> int | None:
        return int(told[key]) if re.fullmatch(r"\d{1,18}", told.get(key, "")) else None

    if (registers := whole("regs")) is not None:
        found["registers"] = registers
    shared = [value for key in ("static_shared", "dynamic_shared") if (value := whole(key)) is not None]
    if shared:
        found["shared_memory"] = sum(shared)
    for key in ("grid", "block"):
        axes = re.fullmatch(r"(\d{1,18}),(\d{1,18}),(\d{1,18})", told.get(key, ""))
        if axes:
            found.update({f"{key}_{axis}": int(axes[i + 1]) for i, axis in enumerate("xyz")})
    if re.fullmatch(r"\d{1,3}(\.\d{1,30})?", told.get("occ_pct", "")):
        found["occupancy"] = float(told["occ_pct"])
    for key in ("size", "num_bytes"):
        if (size := whole(key)) is not None:
            found["bytes"] = size
    return found


def _communicate(trace: _Trace, rows: NDArray[np.intp]) -> None:
    """Rows of ``collective`` for kernels whose instruction communicates, where the reader made none."""
    if not len(rows):
        return
    words, which = _opcodes(trace, rows)
    names = [collective_of(word) for word in words]
    talks = np.array([name is not None for name in names] or [False])[which]
    talks &= ~np.isin(rows, trace.groups["collective"]["row"])
    found = np.flatnonzero(talks)
    if not len(found):
        return
    codes = np.array([-1 if name is None else trace.code("collective", name) for name in names])
    halves = np.array([half_of(word) is not None for word in words])
    chosen = which[found]
    trace.append("collective", {
        "row": rows[found], "collective": codes[chosen], "is_async": halves[chosen].astype(np.int8),
    })  # fmt: skip
    trace.groups["collective"] = _by_row(trace.groups["collective"])


def _by_row(columns: Columns) -> Columns:
    order = np.argsort(columns["row"], kind="stable")
    return {name: values[order] for name, values in columns.items()}


def _steps(trace: _Trace) -> None:
    """The line of steps: annotations that carry the number in their name."""
    rows = trace.rows(_STEPS)
    if not len(rows):
        return
    trace.categorise(rows, "gpu_user_annotation")
    names, which = np.unique(trace.groups["slice"]["name"][rows], return_inverse=True)
    found = [re.fullmatch(r"(?:\D{0,32}\s)?(\d{1,18})", trace.pools["name"][code]) for code in names.tolist()]
    numbers = np.array([int(each[1]) if each else NULL_INT64 for each in found], np.int64)[which.ravel()]
    new = (trace.at[rows] < 0) & (numbers != NULL_INT64)
    trace.append("xla", {"row": rows[new], "step": numbers[new]})
    trace.groups["xla"] = _by_row(trace.groups["xla"])
    trace.at[trace.groups["xla"]["row"]] = np.arange(len(trace.groups["xla"]["row"]), dtype=np.int32)
