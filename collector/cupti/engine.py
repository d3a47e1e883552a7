"""Recording the GPU with CUPTI directly: ``CuptiEngine``, and ``available`` for ``profsuite doctor``.

CUPTI serves one client a process, so this engine and torch.profiler exclude each other: whichever comes first has
it.  ``start`` refuses when the other is there, and ``stop`` says so when CUPTI gave launches but no GPU activity.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, cast

import numpy as np

from profsuite.collector.cupti import library as native
from profsuite.collector.cupti.clock import Anchor, Clock
from profsuite.collector.cupti.decode import (
    CONCURRENT_KERNEL,
    CUDA_EVENT,
    DRIVER,
    DTYPES,
    EXTERNAL_CORRELATION,
    GRAPH_TRACE,
    MEMCPY,
    MEMCPY2,
    MEMSET,
    OVERHEAD,
    RUNTIME,
    SYNCHRONIZATION,
    decode,
)
from profsuite.collector.cupti.library import CuptiError
from profsuite.trace.readers.raw import Remark

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from profsuite.trace.readers.raw import RawTrace

COUNTS: Final = (
    "buffers_requested", "buffers_denied", "buffers_completed", "buffers_late", "records", "dropped", "over_limit",
    "unknown", "short", "lost_bytes", "bytes", "errors",
)  # fmt: skip
"""What the engine counts, in its order: buffers handed to CUPTI, requests that met a full pool, buffers given back,
buffers given back after the end of their session; records kept, dropped by CUPTI, left out beyond ``max_bytes``, of
kinds not read, of layouts too old; bytes of broken buffers, of all buffers; calls that CUPTI failed."""

_CLOCK_READINGS: Final = 32
_DISTURBED_CLOCK_NS: Final = 20_000
_REFUSED, _TIMED_OUT, _FORKED = -1, -2, -3

_KINETO = "torch.profiler holds CUPTI from its first use until the process ends"
_REMEDIES: Final = {
    39: f"another CUPTI client is active in this process ({_KINETO}; Nsight and DCGM's profiling do so too): "
    'record with engine="kineto", or start this engine in a process that has not used torch.profiler',
    35: "the driver lets administrators only profile: run as root, or set the driver's option "
    "NVreg_RestrictProfilingToAdminUsers=0 (https://developer.nvidia.com/ERR_NVGPUCTRPERM)",
    15: "the NVIDIA driver cannot be initialised: is there a GPU, and does nvidia-smi see it?",
    14: "libcupti does not fit the driver: install the nvidia-cuda-cupti of the CUDA version that torch was built for",
    27: "this device, or the way it is virtualised, does not support tracing",
    999: "CUPTI does not say why; a driver that does not fit it is the usual reason",
}  # fmt: skip
_REMEDIES_ALIKE: Final = {12: 39, 40: 35, 38: 14, 33: 27, 41: 27, 42: 27, 43: 27, 44: 27, 45: 27}


@dataclass(frozen=True, kw_only=True, slots=True)
class CuptiConfig:
    """What the engine records and how much memory it takes.

    ``library``: the libcupti to open, found by itself if None.  ``driver``: the CUDA driver's library that must be
    there; None does not look.  ``buffer_bytes`` and ``max_buffers``: the pool that CUPTI fills; beyond it CUPTI drops
    records, and they are counted.  ``max_bytes``: of kept records, about 240 bytes a launched kernel; beyond it
    records are left out, and counted.  ``driver_calls``: of the driver API those that launch, all, or none.
    ``graphs``: a row for each kernel of a CUDA graph, or one for the whole graph, which costs less.
    ``synchronize``: wait for torch's device before a session ends.  ``stop_timeout_s``: how long ``stop`` waits for
    buffers that CUPTI still has.
    """

    library: str | None = None
    driver: str | None = "libcuda.so.1"
    buffer_bytes: int = 4 << 20
    max_buffers: int = 64
    max_bytes: int = 1 << 30
    runtime: bool = True
    driver_calls: Literal["launches", "all", "none"] = "launches"
    copies: bool = True
    syncs: bool = True
    overhead: bool = True
    external: bool = True
    graphs: Literal["nodes", "whole"] = "nodes"
    synchronize: bool = True
    stop_timeout_s: float = 5.0

    def __post_init__(self) -> None:
        if self.buffer_bytes < 64 << 10:
            raise ValueError(f"buffer_bytes must be at least 65536, not {self.buffer_bytes}")
        if self.max_buffers < 1:
            raise ValueError(f"max_buffers must be at least 1, not {self.max_buffers}")
        if self.max_bytes < 0 or self.stop_timeout_s < 0:
            raise ValueError("max_bytes and stop_timeout_s must not be negative")

    def kinds(self) -> list[int]:
        """The kinds of activity to enable (CUpti_ActivityKind), the one that matters most first."""
        kinds = [CONCURRENT_KERNEL]
        kinds += [MEMCPY, MEMCPY2, MEMSET] if self.copies else []
        kinds += [RUNTIME] if self.runtime else []
        kinds += [DRIVER] if self.driver_calls != "none" else []
        kinds += [SYNCHRONIZATION, CUDA_EVENT] if self.syncs else []
        kinds += [OVERHEAD] if self.overhead else []
        kinds += [EXTERNAL_CORRELATION] if self.external else []
        kinds += [GRAPH_TRACE] if self.graphs == "whole" else []
        return kinds


def available(config: CuptiConfig | None = None) -> str | None:
    """Why the engine cannot record on this machine, None if nothing is known to be missing.

    Looks at files only and starts nothing: what the driver permits shows when recording starts.
    """
    config = config or CuptiConfig()
    if sys.platform != "linux":
        return "the CUPTI engine works on Linux only"
    if native.find_headers() is None:
        return f"no CUPTI headers: {native.INSTALL}, or set CUPTI_INCLUDE"
    if native.built() is None and native.compiler() is None:
        return "no C++ compiler: install g++, or set CXX"
    if config.library is None and native.find_library() is None:
        return f"no libcupti: {native.INSTALL}, or set CUPTI_LIBRARY"
    if config.driver is not None:
        try:
            ctypes.CDLL(config.driver)
        except OSError:
            return f"no NVIDIA driver ({config.driver} cannot be opened)"
    return None


def status() -> str:
    """One line for ``profsuite doctor``: whether the engine can record here, else what is missing."""
    if reason := available():
        return f"not in use: {reason}"
    if native.built() is None:
        return f"not compiled yet (profsuite doctor --build); it will use {native.find_library()}"
    return f"compiled; uses {native.find_library()}"


class CuptiEngine:
    """Records GPU activity from ``start`` to ``stop``; may be started again.

    ``problems`` are sentences on what went wrong without ending the recording, ``counts`` what was met.  One session
    a process at a time; a forked child has none.  Not thread-safe, except for ``push`` and ``pop``.
    """

    def __init__(self, config: CuptiConfig | None = None) -> None:
        self.config = config or CuptiConfig()
        self.problems: list[str] = []
        self.counts: dict[str, int] = {}
        self._native: ctypes.CDLL | None = None
        self._pid = 0
        self._anchors: list[Anchor] = []
        self._records: dict[int, list[NDArray[Any]]] = {}

    @property
    def running(self) -> bool:
        """Whether a session runs in this process."""
        return self._pid == os.getpid()

    @property
    def version(self) -> int | None:
        """CUPTI's version, as ``cuptiGetVersion`` numbers it; None before the first start."""
        return int(self._native.psc_version()) if self._native else None

    def prepare(self) -> None:
        """Compile the engine and open libcupti, so that ``start`` does not wait; ``CuptiError`` if either fails."""
        self._open()

    def start(self) -> None:
        """Start a session.

        ``CuptiError`` if something is missing, CUPTI is in use by another client, or it refuses; nothing is left
        behind then.
        """
        if self.running:
            raise CuptiError("the CUPTI engine records already: stop it first")
        self._refuse_kineto()
        engine = self._open()
        config = self.config
        kinds = config.kinds()
        request = native.StartConfig(
            (ctypes.c_uint32 * len(kinds))(*kinds), len(kinds), config.buffer_bytes, config.max_buffers,
            config.max_bytes, config.driver_calls == "launches", 1,
        )  # fmt: skip
        started = native.Started()
        status = engine.psc_start(ctypes.byref(request), ctypes.byref(started))
        if status:
            raise CuptiError(self._refusal(engine, started.stage.decode(), status))
        self.problems, self.counts, self._records, self._anchors = [], {}, {}, []
        self._pid = os.getpid()
        failed = [kind for i, kind in enumerate(kinds) if started.failed_kinds >> i & 1]
        if failed:
            what = ", ".join(_KIND_WORDS[kind] for kind in failed)
            self.problems.append(f"not recorded: {what} ({_result(engine, started.failed_status)})")
        if not started.system_threads:
            self.problems.append("CUPTI cannot tell the system's thread ids: calls lie on tracks of their own")
        self._read_clock(engine)

    def flush(self) -> None:
        """Take over what CUPTI has completed, so that buffers become free; costs one reading of the clocks."""
        if not self.running:
            return
        engine = self._open()
        status = engine.psc_flush(int(self.config.stop_timeout_s * 1000))
        if status == _TIMED_OUT:
            self._problem("a flush of CUPTI's buffers took too long")
        elif status > 0:
            self._problem(f"a flush failed: {_result(engine, status)}")
        self._take(engine)
        self._read_clock(engine)

    def stop(self) -> RawTrace:
        """End the session and decode it: ``halt()()``."""
        return self.halt()()

    def halt(self) -> Callable[[], RawTrace]:
        """End the session; the function returned decodes it, on any thread, and completes ``problems`` and ``counts``.

        Torch's device is synchronised before, as torch.profiler does: kernels that still run are left out and counted
        as ``incomplete``.  ``CuptiError`` if no session runs in this process.
        """
        if not self.running:
            raise CuptiError("the CUPTI engine does not record in this process")
        engine = self._open()
        if self.config.synchronize:
            self._synchronize()
        self._read_clock(engine)
        missing = engine.psc_stop(int(self.config.stop_timeout_s * 1000))
        self._pid = 0
        self._take(engine)
        counts = (ctypes.c_uint64 * len(COUNTS))()
        engine.psc_counts(counts, len(COUNTS))
        self.counts = dict(zip(COUNTS, counts, strict=True)) | {"buffers_missing": max(missing, 0)}
        records, self._records = self._records, {}
        names = names_of(engine)
        engine.psc_clear()
        clock = Clock(self._anchors or [Anchor(0, 0, 0)])
        # The next session may start before this one is decoded: what is said of this one goes along.
        said = (self.counts, self.problems, bool(self._anchors))
        return partial(self._decode, engine, records, names, clock, _device_properties(), said)

    def _decode(
        self,
        engine: ctypes.CDLL,
        records: dict[int, list[NDArray[Any]]],
        names: list[str],
        clock: Clock,
        devices: list[dict[str, Any]],
        said: tuple[dict[str, int], list[str], bool],
    ) -> RawTrace:
        counts, problems, has_clock = said
        processors = {device["id"]: device["numSms"] for device in devices if "numSms" in device}
        raw, rows = decode(records, names, clock, partial(_call_name, engine), processors)
        counts.update(rows)
        raw.num_bytes = counts["bytes"]
        raw.remarks += self._review(records, clock, counts, problems, has_clock)
        told = {remark.message for remark in raw.remarks}
        raw.remarks += [Remark("cupti", 1, None, problem) for problem in problems if problem not in told]
        if devices:
            raw.header.append(("deviceProperties", json.dumps(devices)))
        return raw

    def _synchronize(self) -> None:
        """Wait for torch's device, unless torch never used one or captures a graph, which this would break."""
        cuda: Any = getattr(sys.modules.get("torch"), "cuda", None)
        try:
            if cuda is not None and cuda.is_initialized() and not cuda.is_current_stream_capturing():
                cuda.synchronize()
        except Exception as error:  # the user's kernels may have failed: that is theirs to see
            self._problem(f"the device could not be synchronised: {type(error).__name__}")

    def push(self, external_id: int) -> None:
        """Give this thread's CUDA calls the external id ``external_id`` until ``pop``; nests."""
        if self.running and self._native:
            self._native.psc_push(external_id)

    def pop(self) -> None:
        """End what the last ``push`` of this thread began."""
        if self.running and self._native:
            self._native.psc_pop()

    def _open(self) -> ctypes.CDLL:
        if self._native is not None:
            return self._native
        if reason := available(self.config):
            raise CuptiError(f"the CUPTI engine cannot record: {reason}")
        engine = native.load(native.build())
        check_layout(engine)
        path = Path(self.config.library) if self.config.library else native.find_library()
        error = ctypes.create_string_buffer(1024)
        if engine.psc_open(str(path).encode(), error, len(error)):
            raise CuptiError(f"libcupti cannot be opened: {error.value.decode(errors='replace')}")
        self._native = engine
        return engine

    def _refuse_kineto(self) -> None:
        torch: Any = sys.modules.get("torch")
        enabled = getattr(getattr(getattr(torch, "_C", None), "_autograd", None), "_profiler_enabled", None)
        if enabled is not None and enabled():
            raise CuptiError(f"the CUPTI engine cannot record while torch.profiler does: {_KINETO}")

    def _refusal(self, engine: ctypes.CDLL, stage: str, status: int) -> str:
        if status == _FORKED:
            return "the CUPTI engine cannot record in a forked process: start it before the fork, or use spawn"
        if status == _REFUSED:
            return "the CUPTI engine cannot start: another session of it runs in this process"
        remedy = _REMEDIES.get(_REMEDIES_ALIKE.get(status, status))
        failed = f"{stage} failed with {_result(engine, status)}"
        return f"the CUPTI engine cannot start: {remedy} ({failed})" if remedy else f"the CUPTI engine: {failed}"

    def _read_clock(self, engine: ctypes.CDLL) -> None:
        out = (ctypes.c_uint64 * 3)()
        if status := engine.psc_clock(out, _CLOCK_READINGS):
            self._problem(f"CUPTI's clock cannot be read: {_result(engine, status)}")
            return
        self._anchors.append(Anchor(*out))

    def _take(self, engine: ctypes.CDLL) -> None:
        for index, (kind, item) in enumerate(_kept(engine)):
            self._records.setdefault(kind, []).extend(_chunks(engine, index, kind, item))

    def _problem(self, text: str) -> None:
        if text not in self.problems:
            self.problems.append(text)

    def _review(
        self,
        records: dict[int, list[NDArray[Any]]],
        clock: Clock,
        counts: dict[str, int],
        problems: list[str],
        has_clock: bool,
    ) -> list[Remark]:
        """Say what was lost: sentences for ``problems``, remarks for the trace's health."""
        remarks = []

        def lost(count: int, message: str) -> None:
            if count:
                problems.append(message)
                remarks.append(Remark("dropped", count, None, message))

        lost(
            counts["dropped"],
            f"CUPTI dropped {counts['dropped']:,} records for want of buffers: raise max_buffers or flush more often.",
        )
        lost(
            counts["over_limit"],
            f"{counts['over_limit']:,} GPU records came after the limit of {self.config.max_bytes:,} bytes and were "
            "left out: raise max_bytes or record fewer steps.",
        )
        lost(counts["short"], f"{counts['short']:,} GPU records have the layout of a CUPTI older than CUDA 12's.")
        lost(
            counts["incomplete"],
            f"{counts['incomplete']:,} GPU records had no end when recording stopped and were left out: "
            "synchronise the device before.",
        )
        lost(counts["lost_bytes"], f"{counts['lost_bytes']:,} bytes of CUPTI's buffers could not be read.")
        missing = counts["buffers_missing"]
        if missing:
            buffers = "1 buffer" if missing == 1 else f"{missing:,} buffers"
            lost(missing, f"CUPTI had not given {buffers} back when recording stopped; what they hold is lost.")
        if not has_clock:
            problems.append("the times of GPU activity are on CUPTI's own clock, which could not be read")
        elif clock.width_ns > _DISTURBED_CLOCK_NS:
            problems.append(f"GPU times are known to {clock.width_ns / 1000:.0f} µs only: the machine was busy")
        launches = sum(counts.get(category, 0) for category in ("cuda_runtime", "cuda_driver"))
        work = sum(counts.get(category, 0) for category in ("kernel", "gpu_memcpy", "gpu_memset"))
        if launches and not work and _launched(records, self._native):
            problems.append(
                "kernels were launched, but CUPTI gave no GPU activity: another CUPTI client took it over "
                f"({_KINETO}), or the device was not synchronised before recording stopped"
            )
        return remarks


_KIND_WORDS: Final = {
    CONCURRENT_KERNEL: "kernels", MEMCPY: "copies", MEMCPY2: "copies between devices", MEMSET: "fills",
    RUNTIME: "runtime calls", DRIVER: "driver calls", SYNCHRONIZATION: "waits", CUDA_EVENT: "events",
    OVERHEAD: "overhead", EXTERNAL_CORRELATION: "the ops of launches", GRAPH_TRACE: "graphs",
}  # fmt: skip


def _device_properties() -> list[dict[str, Any]]:
    """The devices, with Kineto's keys, where torch knows them; empty where it was not imported."""
    if "torch" not in sys.modules:
        return []
    from profsuite.collector import window

    try:
        return window.device_properties()
    except Exception:  # a device in a bad state must not cost the trace
        return []


def check_layout(engine: ctypes.CDLL) -> None:
    """``CuptiError`` unless the compiled engine keeps what ``decode.DTYPES`` describes."""
    if dict(_kept(engine)) != {kind: dtype.itemsize for kind, dtype in DTYPES.items()}:
        raise CuptiError("the compiled CUPTI engine does not fit this profsuite: remove it from the cache")


def take(engine: ctypes.CDLL) -> dict[int, list[NDArray[Any]]]:
    """Every record that the engine holds, by kind; the arrays own their memory."""
    return {kind: list(_chunks(engine, index, kind, item)) for index, (kind, item) in enumerate(_kept(engine))}


def names_of(engine: ctypes.CDLL) -> list[str]:
    """The kernel names that the engine met, demangled; a record's number counts them from 1."""
    room = ctypes.create_string_buffer(4096)
    names = []
    for number in range(1, engine.psc_num_names() + 1):
        length = engine.psc_name(number, room, len(room))
        if length > len(room):
            room = ctypes.create_string_buffer(length)
            length = engine.psc_name(number, room, len(room))
        names.append(room.raw[:length].decode("utf-8", "replace"))
    return names


def _kept(engine: ctypes.CDLL) -> list[tuple[int, int]]:
    """Kind and kept bytes of each of the engine's stores."""
    layout = (native.KindLayout * 32)()
    num = engine.psc_layout(layout, len(layout))
    return [(entry.kind, entry.item) for entry in layout[:num]]


def _chunks(engine: ctypes.CDLL, index: int, kind: int, item: int) -> list[NDArray[Any]]:
    """The chunks of one store as arrays, without a copy."""
    chunks = []
    count = ctypes.c_size_t()
    while address := engine.psc_take(index, ctypes.byref(count)):
        memory = (ctypes.c_char * (count.value * item)).from_address(address)
        weakref.finalize(memory, engine.psc_free, address).atexit = False
        chunks.append(np.frombuffer(cast("Any", memory), DTYPES[kind], count.value))
    return chunks


def _result(engine: ctypes.CDLL, status: int) -> str:
    text: bytes | None = engine.psc_result_string(status)
    return text.decode() if text else f"CUPTI error {status}"


def _call_name(engine: ctypes.CDLL, domain: int, call: int) -> str | None:
    name: bytes | None = engine.psc_callback_name(domain, call)
    return name.decode("utf-8", "replace") if name else None


def _launched(records: dict[int, list[NDArray[Any]]], engine: ctypes.CDLL | None) -> bool:
    """Whether a call was recorded that starts work on a device."""
    for kind, domain in ((RUNTIME, 2), (DRIVER, 1)):
        for part in records.get(kind, ()):
            for call in np.unique(part["call"]).tolist():
                name = (_call_name(engine, domain, call) if engine else None) or ""
                if "Launch" in name or "Memcpy" in name or "Memset" in name:
                    return True
    return False
