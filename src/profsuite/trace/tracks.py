"""The track table: what each (pid, tid) is, and which device and stream it stands for."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from profsuite.trace.classes import ON_DEVICE, ON_HOST, Role
from profsuite.trace.columns import Text, build_table, strings
from profsuite.trace.readers.fields import NULL_INT64

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

    from profsuite.trace.readers.raw import RawTrace

_DEVICE_LABEL = re.compile(r"(?:GPU|XPU|MTIA|HPU|NPU|CUDA|HIP)\s*(\d{1,4})", re.IGNORECASE)
_STREAM = re.compile(r"stream\s+#?(\d+)\b.*", re.IGNORECASE)
DEVICE_PLANE = re.compile(r"/device:[A-Za-z]+:(\d{1,4})(?: .*)?")
"""Processes that are devices in XLA's profiles."""
_NO_STREAM = (-1, 2**32 - 1)
"""How "no stream" (CUPTI_SYNCHRONIZATION_INVALID_VALUE) is written, signed and unsigned."""


@dataclass(slots=True)
class Tracks:
    """What is known of each track: one entry a track in every member."""

    kind: list[str]
    device: NDArray[np.int64]
    stream: NDArray[np.int64]
    table: pa.Table


def known_stream(stream: NDArray[np.int64]) -> NDArray[np.int64]:
    """``stream`` with null for the values that mean "no stream"."""
    none = (stream == _NO_STREAM[0]) | (stream == _NO_STREAM[1])
    return np.where(none, NULL_INT64, stream) if none.any() else stream


def known_device(device: NDArray[np.int64]) -> NDArray[np.int64]:
    """``device`` with null for negative ordinals (no device)."""
    none = (device < 0) & (device != NULL_INT64)
    return np.where(none, NULL_INT64, device) if none.any() else device


def describe_tracks(raw: RawTrace, roles: NDArray[np.int8], rank: int | None) -> Tracks:
    """Kind, device, stream and names of every track.

    A track is ``device`` if it holds slices of a device category, or is named after a device or
    stream; ``host`` if it holds host categories, or belongs to a process that does; else
    ``other``.  Device and stream come from the args of the first device slice on it that has them,
    else from the process label, pid and tid.
    """
    slices, gpu = raw.groups["slice"], raw.groups["gpu"]
    num = len(raw.tracks)
    names = metadata_names(raw)
    width = len(Role)
    cells = slices["track"].astype(np.int64) * width + roles
    counts = np.bincount(cells, minlength=num * width).reshape(num, width)
    has_device: NDArray[np.bool_] = np.any(counts[:, list(ON_DEVICE)] > 0, axis=1)
    has_host: NDArray[np.bool_] = np.any(counts[:, list(ON_HOST)] > 0, axis=1)
    has_other = counts[:, Role.OTHER] > 0
    on_device = roles[gpu["row"]]
    usable = np.isin(on_device, ON_DEVICE)
    rows = gpu["row"][usable]
    device = _first(num, slices["track"][rows], known_device(gpu["device"][usable]))
    stream = _first(num, slices["track"][rows], known_stream(gpu["stream"][usable]))

    host_pids = {raw.tracks[i][0] for i in np.flatnonzero(has_host & ~has_device)}
    kind: list[str] = []
    for i, (pid, tid) in enumerate(raw.tracks):
        label = names["process_labels"][i] or ""
        labelled = _DEVICE_LABEL.fullmatch(label.strip())
        thread_stream = _STREAM.fullmatch((names["thread_name"][i] or tid).strip())
        if has_device[i]:
            kind.append("device")
        elif has_host[i]:
            kind.append("host")
        elif counts[i, Role.SPAN] or counts[i, Role.OVERHEAD]:
            kind.append("other")
        elif label == "CPU" or pid in host_pids:
            kind.append("host")
        elif labelled or thread_stream:
            kind.append("device")
        else:
            kind.append("host" if has_other[i] and not label else "other")
        if kind[-1] == "device":
            if device[i] == NULL_INT64:
                device[i] = _device_of(labelled or DEVICE_PLANE.fullmatch(names["process_name"][i] or ""), pid)
            if stream[i] == NULL_INT64:
                stream[i] = _stream_of(thread_stream, tid, bool(has_device[i]))
    table = build_table(
        "track",
        {
            "rank": np.full(num, NULL_INT64 if rank is None else rank, np.int64),
            "pid": _dictionary([pid for pid, _ in raw.tracks]),
            "tid": _dictionary([tid for _, tid in raw.tracks]),
            "kind": _dictionary(kind),
            "device": device,
            "stream": stream,
            "process_name": _dictionary(names["process_name"]),
            "process_label": _dictionary(names["process_labels"]),
            "thread_name": _dictionary(names["thread_name"]),
            "sort_index": np.array([_int(s) for s in names["thread_sort_index"]], np.int64),
        },
    )
    return Tracks(kind, device, stream, table)


def _first(num: int, track: NDArray[Any], values: NDArray[np.int64]) -> NDArray[np.int64]:
    """The first value that is not null on each of ``num`` tracks."""
    out = np.full(num, NULL_INT64, np.int64)
    known = np.flatnonzero(values != NULL_INT64)[::-1]
    out[track[known]] = values[known]  # the last assignment stays: the first in the file
    return out


def _device_of(labelled: re.Match[str] | None, pid: str) -> int:
    if labelled:
        return int(labelled.group(1))
    # Kineto uses the ordinal as pid; a number of more than three digits is a process.
    return int(pid) if re.fullmatch(r"\d{1,3}", pid) else NULL_INT64


def _stream_of(thread_stream: re.Match[str] | None, tid: str, holds_work: bool) -> int:
    if thread_stream:
        return _int(thread_stream.group(1))
    return _int(tid) if holds_work and tid.isdecimal() and int(tid) not in _NO_STREAM else NULL_INT64


def _int(text: str | None) -> int:
    try:
        value = int(text) if text else NULL_INT64
    except ValueError:
        return NULL_INT64
    return value if -(2**63) <= value < 2**63 else NULL_INT64


def metadata_names(raw: RawTrace) -> dict[str, list[str | None]]:
    """What metadata events call each track; the last one wins, process names go by pid."""
    meta = raw.groups["meta"]
    wanted = {
        "process_name": "name",
        "process_labels": "labels",
        "thread_name": "name",
        "thread_sort_index": "sort_index",
    }
    scopes, keys, values = (raw.pools[p] for p in ("meta_name", "meta_key", "meta_value"))
    out: dict[str, list[str | None]] = {}
    for scope, key in wanted.items():
        code, key_code = _code(scopes, scope), _code(keys, key)
        rows = np.flatnonzero((meta["name"] == code) & (meta["key"] == key_code) & (meta["value"] >= 0))
        last = np.full(len(raw.tracks), -1, np.int64)
        last[meta["track"][rows]] = rows
        named: list[str | None] = [None] * len(raw.tracks)
        by_pid: dict[str, str] = {}
        for track in np.argsort(last, kind="stable")[int((last < 0).sum()) :].tolist():
            text = values[int(meta["value"][last[track]])].as_py()
            named[track] = text
            by_pid[raw.tracks[track][0]] = text
        if scope.startswith("process"):
            named = [by_pid.get(pid) for pid, _ in raw.tracks]
        out[scope] = named
    return out


def _code(pool: pa.StringArray, word: str) -> int:
    """The code of ``word``, -2 (no row has it) if the pool lacks it."""
    words = pool.to_pylist()
    return words.index(word) if word in words else -2


def _dictionary(values: list[str | None] | list[str]) -> Text:
    """A text column from Python strings."""
    numbers: dict[str, int] = {}
    codes = [-1 if value is None else numbers.setdefault(value, len(numbers)) for value in values]
    return Text(np.array(codes, np.int32), strings(list(numbers)))
