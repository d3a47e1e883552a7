"""From the engine's records to a ``RawTrace``, whole columns at a time.

The engine keeps the first bytes of each record, which are the same in every CUPTI of CUDA 12 and 13, one store a
kind.  ``DTYPES`` says what is in them.  Categories and names of slices are Kineto's, so that both engines give the
same tables.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from profsuite.collector.recording import RawBuilder
from profsuite.trace.columns import integers, to_numpy
from profsuite.trace.readers.fields import NULL_INT64

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from profsuite.collector.cupti.clock import Clock
    from profsuite.trace.readers.raw import RawTrace

    Records = Mapping[int, Sequence[NDArray[Any]]]

MEMCPY, MEMSET, KERNEL, DRIVER, RUNTIME = 1, 2, 3, 4, 5
CONCURRENT_KERNEL, OVERHEAD, MEMCPY2 = 10, 17, 22
CUDA_EVENT, SYNCHRONIZATION, EXTERNAL_CORRELATION, GRAPH_TRACE = 36, 38, 39, 51
"""CUpti_ActivityKind."""

CUSTOM2: Final = 5
"""CUpti_ExternalCorrelationKind: ours, since Kineto uses CUSTOM0 and CUSTOM1."""

_NONE_32: Final = 0xFFFFFFFF
"""CUPTI_SYNCHRONIZATION_INVALID_VALUE."""


def _dtype(size: int, fields: str) -> np.dtype[Any]:
    """A record's dtype from "name type offset, …"."""
    names, formats, offsets = zip(*(field.split() for field in fields.split(",")), strict=True)
    spec: Any = {"names": names, "formats": formats, "offsets": [int(o) for o in offsets], "itemsize": size}
    dtype: np.dtype[Any] = np.dtype(spec)
    return dtype


_KERNEL = _dtype(
    160,
    "kind u4 0, registers u2 6, start u8 16, end u8 24, device u4 40, context u4 44, stream u4 48,"
    "grid_x i4 52, grid_y i4 56, grid_z i4 60, block_x i4 64, block_y i4 68, block_z i4 72,"
    "static_shared i4 76, dynamic_shared i4 80, correlation u4 92, name u8 104, queued u8 120,"
    "graph_node u8 144, graph u4 156",
)
_API = _dtype(40, "kind u4 0, call u4 4, start u8 8, end u8 16, process u4 24, thread u4 28, correlation u4 32")

DTYPES: Final[dict[int, np.dtype[Any]]] = {
    CONCURRENT_KERNEL: _KERNEL,
    KERNEL: _KERNEL,
    MEMCPY: _dtype(
        80,
        "kind u4 0, copy_kind u1 4, source u1 5, target u1 6, bytes u8 8, start u8 16, end u8 24,"
        "device u4 32, context u4 36, stream u4 40, correlation u4 44, graph_node u8 64, graph u4 72",
    ),
    MEMCPY2: _dtype(
        88,
        "kind u4 0, copy_kind u1 4, source u1 5, target u1 6, bytes u8 8, start u8 16, end u8 24,"
        "device u4 32, context u4 36, stream u4 40, source_device u4 44, target_device u4 52, correlation u4 60,"
        "graph_node u8 72, graph u4 80",
    ),
    MEMSET: _dtype(
        80,
        "kind u4 0, bytes u8 8, start u8 16, end u8 24, device u4 32, context u4 36, stream u4 40, correlation u4 44,"
        "memory u2 50, graph_node u8 64, graph u4 72",
    ),
    RUNTIME: _API,
    DRIVER: _API,
    OVERHEAD: _dtype(40, "kind u4 0, overhead u4 4, start u8 24, end u8 32"),
    SYNCHRONIZATION: _dtype(
        48, "kind u4 0, type u4 4, start u8 8, end u8 16, correlation u4 24, context u4 28, stream u4 32, event u4 36,"
        "sync_id u8 40",
    ),
    CUDA_EVENT: _dtype(
        56, "kind u4 0, correlation u4 4, context u4 8, stream u4 12, event u4 16, sync_id u8 48"
    ),
    EXTERNAL_CORRELATION: _dtype(24, "kind u4 0, external_kind u4 4, external u8 8, correlation u4 16"),
    GRAPH_TRACE: _dtype(
        40, "kind u4 0, correlation u4 4, start u8 8, end u8 16, device u4 24, graph u4 28, context u4 32, stream u4 36"
    ),
}  # fmt: skip
"""What the engine keeps of a record, by kind; ``psc_layout`` of the engine says the same sizes."""

# The words of Kineto's cupti_strings.cpp, by the numbers of CUPTI's enumerations.
COPY_KINDS: Final = (
    "<unknown>", "HtoD", "DtoH", "HtoA", "AtoH", "AtoA", "AtoD", "DtoA", "DtoD", "HtoH", "PtoP",
)  # fmt: skip
MEMORY_KINDS: Final = (
    "Unknown", "Pageable", "Pinned", "Device", "Array", "Managed", "Device Static", "Managed Static",
)  # fmt: skip
OVERHEADS: Final = {
    0: "Unknown", 1: "Driver Compiler", 1 << 16: "Buffer Flush", 2 << 16: "Instrumentation", 3 << 16: "Resource",
    4 << 16: "Runtime Triggered Module Loading", 5 << 16: "Lazy Function Loading", 6 << 16: "Command Buffer Full",
    7 << 16: "Activity Buffer Request", 8 << 16: "UVM Activity Init",
}  # fmt: skip
_ODD: Final = "Unrecognized"
SYNC_KINDS: Final = ("<unknown>", "Event Sync", "Stream Wait Event", "Stream Sync", "Context Sync")
_OF_EVENTS: Final = (1, 2)
"""The synchronization types that name an event."""

_GRIDS: Final = ("grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z")

_WARP: Final = 32

_DRIVER_DOMAIN, _RUNTIME_DOMAIN = 1, 2
"""CUpti_CallbackDomain."""
_CALL_VERSION = re.compile(r"_v\d+$")


def decode(
    records: Records,
    names: Sequence[str],
    clock: Clock,
    call_name: Callable[[int, int], str | None],
    processors: Mapping[int, int] | None = None,
) -> tuple[RawTrace, dict[str, int]]:
    """The trace of a session's records, and how many rows of each category it has.

    ``records[kind]`` are structured arrays of ``DTYPES[kind]``, ``names[n - 1]`` is the kernel name of number n,
    ``call_name(domain, id)`` the name of a CUDA call, ``processors`` how many multiprocessors each device has, for
    blocks and warps a multiprocessor.  Records that never ended (a forced flush hands those out) are
    left out and counted as ``incomplete``.  Rows come kind by kind, in the order in which CUPTI gave them.
    """
    return _Decoder(records, names, clock, call_name, processors or {}).run()


class _Decoder:
    """Decodes chunk by chunk, so that a chunk's columns stay in the cache."""

    def __init__(
        self,
        records: Records,
        names: Sequence[str],
        clock: Clock,
        call_name: Callable[[int, int], str | None],
        processors: Mapping[int, int],
    ) -> None:
        self.records, self.clock, self.call_name, self.processors = records, clock, call_name, processors
        self.build = RawBuilder()
        self.counts: dict[str, int] = {"incomplete": 0}
        self.names = np.append(np.int32(-1), self.build.codes("name", names))  # by a record's number
        correlation, external, kind = self._columns(EXTERNAL_CORRELATION, "correlation", "external", "external_kind")
        ours = kind == CUSTOM2
        self.external = _Lookup(correlation[ours], external[ours])
        sync_id, stream, correlation = self._columns(CUDA_EVENT, "sync_id", "stream", "correlation")
        known = sync_id != 0
        self.event_stream = _Lookup(sync_id[known], stream[known])
        self.event_correlation = _Lookup(sync_id[known], correlation[known])
        self.devices: dict[int, int] = {}  # context -> device
        self.labelled: set[int] = set()

    def run(self) -> tuple[RawTrace, dict[str, int]]:
        steps: tuple[tuple[int, Callable[[NDArray[Any]], None]], ...] = (
            (CONCURRENT_KERNEL, self._kernels),
            (KERNEL, self._kernels),
            (MEMCPY, self._copies),
            (MEMCPY2, self._copies),
            (MEMSET, self._fills),
            (GRAPH_TRACE, self._graphs),
            (RUNTIME, partial(self._calls, "cuda_runtime", _RUNTIME_DOMAIN)),
            (DRIVER, partial(self._calls, "cuda_driver", _DRIVER_DOMAIN)),
            (SYNCHRONIZATION, self._syncs),  # after all that tell which device a context is of
            (OVERHEAD, self._overheads),
        )
        for kind, step in steps:
            for records in self.records.get(kind, ()):
                complete = self._complete(records)
                if len(complete):
                    step(complete)
        return self.build.build(), self.counts

    def _columns(self, kind: int, *fields: str) -> list[NDArray[np.int64]]:
        """Whole columns of a kind."""
        chunks = self.records.get(kind, ())
        return [
            np.concatenate([chunk[field].astype(np.int64) for chunk in chunks] or [np.zeros(0, np.int64)])
            for field in fields
        ]

    def _complete(self, records: NDArray[Any]) -> NDArray[Any]:
        """The records that have a start and an end."""
        start, end = records["start"], records["end"]
        good = (start != 0) & (end >= start)
        if good.all():
            return records
        self.counts["incomplete"] += int(len(good) - np.count_nonzero(good))
        complete: NDArray[Any] = records[good]
        return complete

    def _slices(
        self, records: NDArray[Any], category: str, name: NDArray[np.int32] | int, track: NDArray[np.int32] | int
    ) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """Append slices; their rows and durations."""
        ts = self.clock.to_epoch(records["start"])
        dur = self.clock.to_epoch(records["end"])
        dur -= ts
        np.maximum(dur, 0, out=dur)
        columns: dict[str, Any] = {
            "ts": ts, "dur": dur, "track": track, "name": name, "category": self.build.code("category", category),
        }  # fmt: skip
        if "correlation" in (records.dtype.names or ()):
            columns["correlation"] = records["correlation"].astype(np.int64)
            if len(self.external):
                columns["external"] = self.external.find(columns["correlation"])
        self.counts[category] = self.counts.get(category, 0) + len(records)
        row = self.build.append("slice", columns)
        return np.arange(row, row + len(records), dtype=np.int32), dur

    def _device_slices(self, records: NDArray[Any], category: str, name: NDArray[np.int32], **more: Any) -> None:
        """Append slices of device work with what is known of it (columns of the group ``gpu``)."""
        context = records["context"].astype(np.int64)
        device = records["device"].astype(np.int64)
        stream = records["stream"].astype(np.int64)
        _mapped(context << 32 | device, self._see_context)
        row, dur = self._slices(records, category, name, self._device_tracks(device, stream))
        names = records.dtype.names or ()
        if "bytes" in names:
            more["bytes"] = records["bytes"]
            with np.errstate(divide="ignore", invalid="ignore"):
                more["bandwidth"] = np.where(dur > 0, more["bytes"] / dur, np.nan)
        if "graph_node" in names:
            more["graph_node"] = records["graph_node"]
        place = {"device": device, "stream": stream, "context": context, "graph": records["graph"]}
        self.build.append("gpu", {"row": row, **place, **more})

    def _see_context(self, key: int) -> int:
        device = key & _NONE_32
        return self.devices.setdefault(key >> 32, device if device < 1 << 31 else -1)

    def _device_tracks(self, device: NDArray[np.int64], stream: NDArray[np.int64]) -> NDArray[np.int32]:
        def track(key: int) -> int:
            pid, tid = key >> 32, key & _NONE_32
            number = self.build.track(pid, tid if tid != _NONE_32 else -1)
            if number not in self.labelled:
                self.labelled.add(number)
                self.build.add_metadata(number, "process_labels", "labels", f"GPU {pid}")
                if tid != _NONE_32:
                    self.build.add_metadata(number, "thread_name", "name", f"stream {tid}")
            return number

        return _mapped(device << 32 | stream & _NONE_32, track)

    def _kernels(self, records: NDArray[Any]) -> None:
        number = records["name"]
        known = number < len(self.names)
        name = self.names[number if known.all() else np.where(known, number, 0)]
        more: dict[str, NDArray[Any]] = {field: records[field] for field in _GRIDS}
        more["registers"] = records["registers"]
        shared = records["static_shared"].astype(np.int64)
        shared += records["dynamic_shared"]
        queued = records["queued"]
        if queued.any():
            # Only with latency time stamps; else 0, which is no time.
            more["queued"] = np.where(queued > 0, self.clock.to_epoch(queued), NULL_INT64)
        if self.processors:
            more |= self._per_processor(records)
        self._device_slices(records, "kernel", name, **more, shared_memory=shared)

    def _per_processor(self, records: NDArray[Any]) -> dict[str, NDArray[np.float64]]:
        """Blocks and warps a multiprocessor, as Kineto computes them: of the whole grid."""
        num = _mapped(records["device"].astype(np.int64), lambda device: self.processors.get(device, 0)).astype(float)
        num[num == 0] = np.nan
        blocks: NDArray[np.float64] = 1.0 / num
        threads: NDArray[np.float64] = np.full(len(records), 1.0 / _WARP)
        for axis in "xyz":
            blocks = blocks * records[f"grid_{axis}"]
            threads = threads * records[f"block_{axis}"]
        return {"blocks_per_sm": blocks, "warps_per_sm": blocks * threads}

    def _copies(self, records: NDArray[Any]) -> None:
        def name(key: int) -> int:
            copy, source, target = key >> 16, key >> 8 & 255, key & 255
            places = f"{_word(MEMORY_KINDS, source, _ODD)} -> {_word(MEMORY_KINDS, target, _ODD)}"
            return self.build.code("name", f"Memcpy {_word(COPY_KINDS, copy, COPY_KINDS[0])} ({places})")

        key = records["copy_kind"].astype(np.int64) << 16 | records["source"].astype(np.int64) << 8 | records["target"]
        self._device_slices(records, "gpu_memcpy", _mapped(key, name))

    def _fills(self, records: NDArray[Any]) -> None:
        def name(memory: int) -> int:
            return self.build.code("name", f"Memset ({_word(MEMORY_KINDS, memory, _ODD)})")

        self._device_slices(records, "gpu_memset", _mapped(records["memory"].astype(np.int64), name))

    def _graphs(self, records: NDArray[Any]) -> None:
        def name(graph: int) -> int:
            return self.build.code("name", f"CUDA graph {graph}")

        self._device_slices(records, "kernel", _mapped(records["graph"].astype(np.int64), name))

    def _calls(self, category: str, domain: int, records: NDArray[Any]) -> None:
        def name(call: int) -> int:
            found = self.call_name(domain, call)
            if found is None:
                return self.build.code("name", f"{category} call {call}")
            # cudaLaunchKernel_v7000 is cudaLaunchKernel; cuMemAlloc_v2 is a function of that name.
            return self.build.code("name", _CALL_VERSION.sub("", found) if domain == _RUNTIME_DOMAIN else found)

        thread = records["process"].astype(np.int64) << 32 | records["thread"]
        track = _mapped(thread, lambda key: self.build.track(key >> 32, key & _NONE_32))
        self._slices(records, category, _mapped(records["call"].astype(np.int64), name), track)

    def _syncs(self, records: NDArray[Any]) -> None:
        type_ = records["type"].astype(np.int64)
        context = records["context"].astype(np.int64)
        stream = records["stream"].astype(np.int64)
        stream[stream == _NONE_32] = -1
        # Where no work told the device of a context, its wait is on a track of no device.
        device = _mapped(context, lambda key: self.devices.get(key, -1)).astype(np.int64)
        known = device >= 0
        track = np.empty(len(records), np.int32)
        track[known] = self._device_tracks(device[known], stream[known])
        track[~known] = _mapped(stream[~known], lambda tid: self.build.track("", tid))
        device[~known] = NULL_INT64
        name = _mapped(type_, lambda number: self.build.code("name", _word(SYNC_KINDS, number, SYNC_KINDS[0])))
        row, _ = self._slices(records, "cuda_sync", name, track)
        self.build.append("gpu", {"row": row, "device": device, "stream": stream, "context": context})
        event, sync_id = records["event"].astype(np.int64), records["sync_id"].astype(np.int64)
        of_event = np.isin(type_, _OF_EVENTS) & (event != _NONE_32)
        event[~of_event] = sync_id[~of_event] = NULL_INT64
        self.build.append(
            "sync",
            {
                "row": row,
                "sync_kind": _mapped(
                    type_, lambda number: self.build.code("misc", _word(SYNC_KINDS, number, SYNC_KINDS[0]))
                ),
                "event": event,
                "wait_stream": self.event_stream.find(sync_id),
                "record_correlation": self.event_correlation.find(sync_id),
            },
        )

    def _overheads(self, records: NDArray[Any]) -> None:
        def name(kind: int) -> int:
            return self.build.code("name", OVERHEADS.get(kind, _ODD))

        track = self.build.track(-1, 0)
        self._slices(records, "overhead", _mapped(records["overhead"].astype(np.int64), name), track)


class _Lookup:
    """Values by key; of several with one key the last counts, NULL_INT64 where there is none."""

    def __init__(self, keys: NDArray[np.int64], values: NDArray[np.int64]) -> None:
        self.table: NDArray[np.int64] | None = None
        self.low, self.size = 0, len(keys)
        if not len(keys):
            return
        self.low, high = int(keys.min()), int(keys.max())
        if self.low >= 0 and high - self.low < 16 * len(keys) + 65536:
            # Correlation ids are dense: a table addressed by id takes a fraction of a search's time.
            self.table = np.full(high - self.low + 2, NULL_INT64, np.int64)  # the last: no such key
            self.table[keys - self.low] = values
            return
        order = np.argsort(keys, kind="stable")
        self.keys, self.values = keys[order], values[order]

    def __len__(self) -> int:
        return self.size

    def find(self, wanted: NDArray[np.int64]) -> NDArray[np.int64]:
        if not self.size:
            return np.full(len(wanted), NULL_INT64, np.int64)
        if self.table is not None:
            last = len(self.table) - 1
            inside = (wanted >= self.low) & (wanted < self.low + last)
            place = wanted - self.low
            if not inside.all():
                place = np.where(inside, place, last)
            return self.table[place]
        place = np.searchsorted(self.keys, wanted, side="right") - 1
        found = (place >= 0) & (self.keys[place] == wanted)
        return np.where(found, self.values[place], NULL_INT64)


def _mapped(keys: NDArray[np.int64], number: Callable[[int], int]) -> NDArray[np.int32]:
    """``number(key)`` of each key (int32), called once a distinct key."""
    if not len(keys):
        return np.zeros(0, np.int32)
    if bool((keys == keys[0]).all()):
        return np.full(len(keys), number(int(keys[0])), np.int32)
    low, high = int(keys.min()), int(keys.max())
    if high - low < 65536:
        used = np.zeros(high - low + 1, bool)
        place = keys - low
        used[place] = True
        table = np.zeros(high - low + 1, np.int32)
        for at in np.flatnonzero(used).tolist():
            table[at] = number(at + low)
        return table[place]
    # Arrow's hash is several times as fast as numpy's sort.
    encoded = integers(np.ascontiguousarray(keys)).dictionary_encode()
    table = np.array([number(key) for key in to_numpy(encoded.dictionary).tolist()], np.int32)
    found: NDArray[np.int32] = table[to_numpy(encoded.indices)]
    return found


def _word(words: Sequence[str], number: int, otherwise: str) -> str:
    return words[number] if number < len(words) else otherwise
