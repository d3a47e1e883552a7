"""The window: what torch.profiler (Kineto) records, as columns.

``Window.stop`` only ends the session; ``Taken.raw`` makes the columns and runs on another thread.  The extension
``native/extract.cpp`` reads the result where it lies.  Without it Kineto's JSON goes through a temporary file and
the trace reader: the same tables, later.
"""

from __future__ import annotations

import _thread
import json
import os
import socket
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from profsuite.collector.recording import COLUMNS, RawBuilder, merge
from profsuite.errors import ProfsuiteError
from profsuite.trace.readers.fields import NULL_INT64, POOLS
from profsuite.trace.readers.raw import Remark

if TYPE_CHECKING:
    from collections.abc import Callable

    from profsuite.collector.config import Config
    from profsuite.trace.readers.raw import RawTrace

FLOW_NAMES: Final = ("fwdbwd", "ac2g")


class BusyError(ProfsuiteError):
    """A profiler is active already: two at once would leave both without events."""


def active_profiler() -> str | None:
    """What records already in this process, in words; None if nothing does.

    torch allows one profiler at a time, and a second one ends both without an error.
    """
    import torch
    from torch.autograd import profiler

    kind = getattr(torch._C._autograd._profiler_type(), "name", "NONE")
    if kind == "NONE" and not torch._C._autograd._profiler_enabled():
        # Set for sessions of other threads, and for those that watch all threads.
        return "torch.profiler (on another thread)" if getattr(profiler, "_is_profiler_enabled", False) else None
    return {"NVTX": "torch.autograd.profiler.emit_nvtx", "ITT": "torch.autograd.profiler.emit_itt"}.get(
        kind, "torch.profiler"
    )


def refuse_if_busy() -> None:
    """``BusyError`` if a profiler is active."""
    if (other := active_profiler()) is not None:
        raise BusyError(f"{other} is recording already, and torch records nothing for two at once: end it first")


class Window:
    """One session of Kineto.  ``prepare`` (may be left out), ``start`` and ``stop`` on the training thread."""

    def __init__(self, config: Config, extension: Any | None = None, *, device: bool = True) -> None:
        self.config = config
        self.device = device
        self.extension = extension
        self._session: Any = None
        self._early: Any = None
        self._prepared = False
        self._started = 0
        self._thread = 0

    def prepare(self) -> None:
        """Make Kineto ready, the slow part of a start; ``BusyError`` if a profiler is active."""
        _wait_for_last()
        refuse_if_busy()
        self._session = self._new_session()
        self._session._prepare_trace()
        self._prepared = True

    def start(self) -> None:
        """Begin to record; ``BusyError`` if a profiler is active."""
        if not self._prepared:
            self.prepare()
        refuse_if_busy()
        self._started = time.time_ns()
        self._thread = threading.get_ident()
        self._early = None
        if self.config.shapes and not self.config.json and self._can_detach(self._session):
            self._early = self._start_early()
        else:
            self._session._start_trace()

    def _start_early(self) -> Any:
        """Start as torch does, but so that the inputs of ops are taken as soon as Kineto has them."""
        from torch.autograd import profiler

        torch_profiler: Any = profiler
        session = self._session
        assert self.extension is not None
        session.entered = True
        torch_profiler._run_on_profiler_start()
        return self.extension.enable(session.config(create_trace_id=False), session.kineto_activities)

    def stop(self) -> Taken:
        """End the session."""
        from torch.autograd import profiler

        lost = not getattr(profiler, "_is_profiler_enabled", True)
        session, self._session, self._prepared = self._session, None, False
        if not self.config.all_threads and threading.get_ident() != self._thread:
            problem = "the window was ended on another thread than it began on, which torch does not allow"
            return Taken(None, self.config, None, self._started, problem=problem)
        try:
            if not lost and self._can_detach(session):
                ending = _Ending(self.extension, traced=self.config.stacks)
                taken = Taken(None, self.config, self.extension, self._started, ending=ending)
                taken.early = self._early
                return taken
            session.__exit__(None, None, None)
        except RuntimeError as error:
            # Another profiler has ended ours: what there was is gone, and training must not end for it.
            return Taken(None, self.config, None, self._started, problem=f"another profiler ended the window ({error})")
        if lost:
            # The result is a shell: to export it would crash.
            return Taken(None, self.config, None, self._started, problem="another profiler ran inside the window")
        return Taken(session.kineto_results, self.config, self.extension, self._started)

    def _can_detach(self, session: Any) -> bool:
        """Whether the end of the session can be left to another thread.

        Not for sessions of all threads (see ``detach`` in extract.cpp).  Nor with a GPU: that CUPTI may be stopped
        from another thread is not verified.
        """
        plain = not (self.config.all_threads or session.use_device)
        return self.extension is not None and plain

    def abandon(self) -> None:
        """Forget a prepared session that will not start."""
        if self._session is not None and self._prepared:
            # Kineto has no call to cancel a prepared trace: an empty session takes it back.
            self._session._start_trace()
            self._session.__exit__(None, None, None)
        self._session, self._prepared = None, False

    def _new_session(self) -> Any:
        import torch
        from torch._C._profiler import _ExperimentalConfig
        from torch.autograd import profiler
        from torch.profiler import ProfilerActivity

        config = self.config
        experimental = _ExperimentalConfig(profile_all_threads=True) if config.all_threads else None
        known = torch._C._autograd._supported_activities()
        device = next(
            (
                name
                for name, kind in (("cuda", "CUDA"), ("xpu", "XPU"), ("mtia", "MTIA"), ("hpu", "HPU"))
                if getattr(ProfilerActivity, kind, None) in known
            ),
            None,
        )
        if not self.device or (device == "cuda" and not torch.cuda.is_available()):
            device = None
        return profiler.profile(
            use_kineto=True,
            use_device=device,
            record_shapes=config.shapes,
            profile_memory=config.memory,
            with_stack=config.stacks,
            with_modules=config.modules,
            experimental_config=experimental,
        )


class _Ending:
    """The end of a session on a thread of its own, begun on the training thread.

    ``traced`` waits until Python's tracer, if the session has one, has been stopped there.
    """

    def __init__(self, extension: Any, *, traced: bool) -> None:
        global _last
        self._detached = detached = extension.detach()
        self._extension = extension
        self._result: Any = None
        self._error: Exception | None = None
        self._running = threading.Lock()
        self._running.acquire()
        try:
            # Not threading.Thread, whose start makes thirty calls that a tracer would take for the program's.
            _thread.start_new_thread(self._finish, ())
        except RuntimeError:  # the interpreter is ending (Python 3.12), or the system has no more threads
            self._finish()
        _last = self
        if traced:
            extension.wait_untraced(detached)

    def _finish(self) -> None:
        from torch.autograd import profiler

        torch_profiler: Any = profiler
        try:
            self._result = self._extension.finish(self._detached)
        except Exception as error:
            self._error = error
        finally:
            self._detached = None
            torch_profiler._run_on_profiler_stop()
            self._running.release()

    def wait(self) -> None:
        """Until Kineto is free again."""
        with self._running:
            pass

    def result(self) -> Any:
        """Kineto's result, once; ``RuntimeError`` if it could not be had."""
        self.wait()
        result, self._result = self._result, None
        if self._error is not None:
            raise RuntimeError(f"the window could not be ended: {self._error}") from self._error
        return result


_last: _Ending | None = None


def _wait_for_last() -> None:
    """Kineto takes one session at a time: the last one of ours must have ended."""
    global _last
    if _last is not None:
        _last.wait()
        _last = None


def _forget_last() -> None:
    """In a forked child the thread is not there to be waited for."""
    global _last
    _last = None


os.register_at_fork(after_in_child=_forget_last)


@dataclass(slots=True)
class Taken:
    """An ended session: its result still where Kineto put it."""

    result: Any
    config: Config
    extension: Any | None
    started: int
    problem: str | None = None
    json_path: Path | None = None
    ending: _Ending | None = None
    early: Any = None
    took_ns: int = field(default=0)
    header: dict[str, str] = field(init=False)

    def __post_init__(self) -> None:
        # Now, not when the columns are read on another thread: the process group may be gone by then.
        self.header = header(self.config)

    def raw(self) -> RawTrace:
        """The columns; the result is given up.  With ``json_path`` Kineto's JSON is written there too."""
        begin = time.perf_counter_ns()
        if self.ending is not None:
            self.result = self.ending.result()
        raw = RawBuilder().build() if self.result is None else self._columns()
        if self.problem is not None:
            raw.remarks.append(Remark("profiler_conflict", 1, None, f"{self.problem}: its events are missing."))
        self.took_ns = time.perf_counter_ns() - begin
        return raw

    def _columns(self) -> RawTrace:
        if self.extension is None:
            raw = through_json(self.result, self.json_path)
            self.result = None
        else:
            raw = to_raw(self._read())
        add_header(raw, self.header)
        return raw

    def _read(self) -> dict[str, Any]:
        """What the extension reads; Kineto's result is freed before it becomes anything else."""
        assert self.extension is not None
        result, self.result = self.result, None
        if self.json_path is not None:
            result.save(str(self.json_path))
        self.extension.release_events(result)
        self.extension.trim()
        out: dict[str, Any] = self.extension.extract(result, early=self.early)
        self.extension.release(result)
        del result
        self.early = None
        self.extension.trim()
        return out


def extract(result: Any, extension: Any, *, all_as_json: bool = False) -> RawTrace:
    """The columns of a ``_ProfilerResult``, read in place by the extension.

    ``all_as_json`` takes every activity the way those of the GPU are taken, for tests.
    """
    return to_raw(extension.extract(result, all_as_json))


def to_raw(out: dict[str, Any]) -> RawTrace:
    """A trace of what the extension read."""
    pools = out["pools"]
    build = RawBuilder()
    # Names that are no UTF-8 may become equal: then the numbers are not those of the extension.
    tables = {pool: np.append(build.codes(pool, words), np.int32(-1)) for pool, words in pools.items()}
    for pid, tid in out["tracks"]:
        build.track(pid, tid)
    groups = out["groups"]
    flow = groups["flow"]
    names = np.array([build.code("name", name) for name in FLOW_NAMES], np.int32) if len(flow["ts"]) else None
    categories = np.array([build.code("category", name) for name in FLOW_NAMES], np.int32) if len(flow["ts"]) else None
    for group, columns in groups.items():
        if group == "flow":
            if names is None or categories is None:
                continue
            columns = {**columns, "category": categories[columns["name"]], "name": names[columns["name"]]}
        else:
            columns = {
                name: tables[pool][columns[name]] if pool else columns[name]
                for name, _, pool in COLUMNS[group]
                if name in columns
            }
        build.append(group, columns)
    for row, values in out["meta"]:
        _add_collective(build, row, values)
    if len(build.tracks()):
        label(build)
    build.header["baseTimeNanoseconds"] = "0"
    raw = build.build()
    if out["num_json"]:
        raw = merge([raw, read_json(b'{"traceEvents":[' + out["json"] + b"]}")])
    return raw


def _add_collective(build: RawBuilder, row: int, values: dict[str, str]) -> None:
    """The arguments of a collective, which Kineto keeps as JSON text."""
    from profsuite.trace.readers.fields import ARGS

    spec = {name: kind for name, kind, _ in COLUMNS["collective"]}
    found: dict[str, Any] = {}
    alone = False
    for key, group, column, triggers in ARGS:
        if group != "collective" or key not in values:
            continue
        text = values[key].strip()
        alone |= triggers
        match spec[column]:
            case "int":
                digits = text.strip('"')
                found[column] = int(digits) if digits.lstrip("-").isdecimal() else None
            case "bool":
                found[column] = {"true": 1, "false": 0}.get(text.strip('"').lower())
            case _:
                found[column] = text[1:-1] if len(text) > 1 and text[0] == text[-1] == '"' else text
    if alone:
        build.add("collective", row=row, **found)


def label(build: RawBuilder) -> None:
    """Metadata events for the tracks, as Kineto writes them: names of process and threads."""
    pid = str(os.getpid())
    for track, (process, thread) in enumerate(build.tracks()):
        if process == pid:
            build.add_metadata(track, "process_name", "name", "python")
            build.add_metadata(track, "process_labels", "labels", "CPU")
            if thread == "0":  # of frames whose thread is not known
                continue
            try:
                name = Path(f"/proc/self/task/{thread}/comm").read_text("utf-8").strip()
            except OSError:  # it has ended, or this is no Linux
                name = ""
            text = f"thread {thread} ({name})" if name else f"thread {thread}"
            build.add_metadata(track, "thread_name", "name", text)
            build.add_metadata(track, "thread_sort_index", "sort_index", thread)


def through_json(result: Any, keep: Path | None = None) -> RawTrace:
    """The columns of a ``_ProfilerResult`` by way of its JSON, which stays at ``keep`` if given."""
    with tempfile.TemporaryDirectory(prefix="profsuite-") as folder:
        path = keep or Path(folder) / "window.json"
        result.save(str(path))
        raw = read_json(path)
    return since_epoch(raw)


def read_json(source: Path | bytes) -> RawTrace:
    """The raw trace of a JSON file or its bytes, with the C scanner where it is built."""
    from profsuite.trace.readers import native

    read: Callable[[Any], RawTrace] = native.read_chunks
    if native.MISSING is not None:
        from profsuite.trace.readers import fallback

        read = fallback.read_chunks
    if isinstance(source, bytes):
        return read([source])
    with source.open("rb") as stream:
        return read(iter(lambda: stream.read(1 << 20), b""))


def since_epoch(raw: RawTrace) -> RawTrace:
    """``raw`` with its times counted from the epoch: Kineto's JSON counts from a base that it names."""
    header = dict(raw.header)
    base = int(header.get("baseTimeNanoseconds", "0"))
    for group, columns in COLUMNS.items():
        if any(name == "ts" for name, _, _ in columns):
            values = raw.groups[group]["ts"]
            raw.groups[group]["ts"] = np.where(values == NULL_INT64, values, values + base)
    header.pop("traceName", None)
    raw.header = list((header | {"baseTimeNanoseconds": "0"}).items())
    for group, columns in COLUMNS.items():
        if any(name == "offset" for name, _, _ in columns):
            # The file is gone.
            raw.groups[group]["offset"] = np.full(len(raw.groups[group]["offset"]), NULL_INT64, np.int64)
    return raw


def header(config: Config) -> dict[str, str]:
    """The keys that Kineto writes at the top of its JSON, as JSON text."""
    keys: dict[str, Any] = {
        "schemaVersion": 1,
        "deviceProperties": device_properties(),
        "record_shapes": int(config.shapes),
        "profile_memory": int(config.memory),
        "with_stack": int(config.stacks),
        "with_modules": int(config.modules),
        "host_name": socket.gethostname(),
        "displayTimeUnit": "ms",
        "baseTimeNanoseconds": 0,
    }
    if (info := distributed_info()) is not None:
        keys["distributedInfo"] = info
    # As Kineto: a flag that is off is not written.
    return {key: json.dumps(value) for key, value in keys.items() if value != 0 or key == "baseTimeNanoseconds"}


def add_header(raw: RawTrace, own: dict[str, str]) -> None:
    """Add keys of ``header`` to a trace that lacks them."""
    known = {key for key, _ in raw.header}
    raw.header += [(key, value) for key, value in own.items() if key not in known]


def device_properties() -> list[dict[str, Any]]:
    """The CUDA devices, with Kineto's keys; empty without a GPU."""
    import torch

    cuda: Any = torch.cuda
    if not cuda.is_available() or not cuda.is_initialized():
        return []
    names = {
        "name": "name",
        "totalGlobalMem": "total_memory",
        "computeMajor": "major",
        "computeMinor": "minor",
        "maxThreadsPerMultiprocessor": "max_threads_per_multi_processor",
        "regsPerMultiprocessor": "regs_per_multiprocessor",
        "warpSize": "warp_size",
        "sharedMemPerMultiprocessor": "shared_memory_per_multiprocessor",
        "numSms": "multi_processor_count",
    }
    found = []
    for ordinal in range(torch.cuda.device_count()):
        device = torch.cuda.get_device_properties(ordinal)
        values = {key: getattr(device, attribute, None) for key, attribute in names.items()}
        found.append({"id": ordinal} | {key: value for key, value in values.items() if value is not None})
    return found


def distributed_info() -> dict[str, Any] | None:
    """Rank, world size and backend of torch.distributed; None where it is not initialised."""
    import torch.distributed as dist

    if not dist.is_available() or not dist.is_initialized():
        return None
    return {"backend": dist.get_backend(), "rank": dist.get_rank(), "world_size": dist.get_world_size()}


assert set(POOLS) >= {"name", "category", "shape", "types", "concrete", "stack", "module"}
