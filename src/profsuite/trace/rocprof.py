"""What the slices of rocprof's ``results.json`` are: its processes say it, no event has a category.

``rocprof --hip-trace`` (versions 1 and 2) writes whole microseconds as the events' times, and nanoseconds into their
args (``BeginNs``, ``EndNs``): the latter count.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from profsuite.trace.columns import null_of, strings
from profsuite.trace.readers.fields import NULL_INT64

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from profsuite.trace.readers.raw import RawTrace

    Columns = dict[str, NDArray[Any]]

_API: Final = ("CPU HIP API", "CPU HSA API")
_MARKS: Final = "Markers and Ranges"
_COPY: Final = "COPY"
_GPU: Final = re.compile(r"GPU(\d{1,4})")
_BARRIER: Final = re.compile(r"GPU Barriers(\d{1,4})")
_FILL: Final = re.compile(r"fill|memset", re.IGNORECASE)


def describe(raw: RawTrace, process: Sequence[str | None]) -> RawTrace:
    """The raw trace with categories, devices and exact times, or as it is if rocprof did not write it."""
    told = raw.groups["rocprof"]
    if not len(told["row"]) or not any(name in (*_API, _COPY) for name in process):
        return raw
    slices = dict(raw.groups["slice"])
    category = raw.pools["category"].to_pylist()
    empty = np.array([not word for word in category] + [True], bool)
    blank = empty[slices["category"]]
    kinds = [_kind(name or "") for name in process]
    kind = np.array([category_of for category_of, _ in kinds] or [""])[slices["track"]]
    names = raw.pools["name"].to_pylist()
    fill = np.array([bool(_FILL.search(name or "")) for name in names] + [False])[slices["name"]]
    kind = np.where((kind == "gpu_memcpy") & fill, "gpu_memset", kind)
    codes = slices["category"].copy()
    for word in np.unique(kind[blank]).tolist():
        if word:
            codes[blank & (kind == word)] = len(category)
            category.append(word)
    slices["category"] = codes
    _exact(slices, told)
    groups = {**raw.groups, "slice": slices, "gpu": _placed(raw, kind, blank, [device for _, device in kinds])}
    pools = {**raw.pools, "category": strings(category)}
    return replace(raw, groups=groups, pools=pools)


def _kind(process: str) -> tuple[str, int]:
    """The category of a process's slices, and its device."""
    if process in _API:
        return "hip_runtime", NULL_INT64
    if process == _MARKS:
        return "user_annotation", NULL_INT64
    if process == _COPY:
        return "gpu_memcpy", NULL_INT64
    if found := _GPU.fullmatch(process):
        return "kernel", int(found[1])
    if found := _BARRIER.fullmatch(process):
        return "gpu_user_annotation", int(found[1])
    return "", NULL_INT64


def _exact(slices: Columns, told: Columns) -> None:
    """Times to the nanosecond, where they agree with those of the events but for what these leave out."""
    row, begin, end = told["row"], told["begin"], told["end"]
    known = (begin != NULL_INT64) & (end != NULL_INT64) & (np.abs(begin) < 2**61) & (np.abs(end) < 2**61)
    row, begin, end = row[known], begin[known], end[known]
    if not len(row):
        return
    apart = begin - slices["ts"][row]
    origin = int(apart.min())
    if int(apart.max()) - origin >= 1000:
        return  # another clock
    origin = 0 if 0 <= origin < 1000 else origin
    fits = (end >= begin) & (np.abs(end - begin - slices["dur"][row]) < 1000)
    slices["ts"], slices["dur"] = slices["ts"].copy(), slices["dur"].copy()
    slices["ts"][row[fits]] = begin[fits] - origin
    slices["dur"][row[fits]] = (end - begin)[fits]


def _placed(raw: RawTrace, kind: NDArray[Any], blank: NDArray[np.bool_], device: list[int]) -> Columns:
    """Rows of ``gpu``: device and stream of the work."""
    gpu, told, track = raw.groups["gpu"], raw.groups["rocprof"], raw.groups["slice"]["track"]
    work = np.flatnonzero(blank & np.isin(kind, ("kernel", "gpu_memcpy", "gpu_memset")))
    work = work[~np.isin(work, gpu["row"])]
    at = np.full(len(track), -1, np.int64)
    at[told["row"]] = np.arange(len(told["row"]))
    known = at[work] >= 0

    def column(name: str, default: NDArray[np.int64]) -> NDArray[np.int64]:
        values = np.where(known, told[name][at[work]], NULL_INT64)
        return np.where(values == NULL_INT64, default, values)

    lanes = [int(tid) if re.fullmatch(r"\d{1,18}", tid) else NULL_INT64 for _, tid in raw.tracks]
    stream = column("stream", np.array(lanes, np.int64)[track[work]])
    ordinal = np.array(device, np.int64)[track[work]]
    ordinal = np.where(ordinal == NULL_INT64, column("device", ordinal), ordinal)
    new: Columns = {"row": work, "device": ordinal, "stream": stream}
    merged = {
        name: np.concatenate((values, new[name].astype(values.dtype) if name in new
                              else np.full(len(work), null_of(values.dtype), values.dtype)))
        for name, values in gpu.items()
    }  # fmt: skip
    order = np.argsort(merged["row"], kind="stable")
    return {name: values[order] for name, values in merged.items()}
