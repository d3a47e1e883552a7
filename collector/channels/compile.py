"""What torch.compile does: spans, graph breaks, recompiles with reasons and the user's lines, cache answers.

Two sources.  Dynamo keeps metrics of each compilation and the reason of each graph break anyway: reading them
costs next to nothing, and is what this channel does.  With ``logs`` it also listens to torch's structured trace,
which gives each event's own time, all reasons of a recompile, and graph breaks across ``torch._dynamo.reset()``;
torch then prints every graph for it, 15 to 55 ms a compilation.
"""

from __future__ import annotations

import json
import logging
import os
import re
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from profsuite.collector.recording import RawBuilder

if TYPE_CHECKING:
    from collections.abc import Iterable

    from profsuite.trace.readers.raw import RawTrace

CATEGORY = "user_annotation"

MAX_METRICS = 4_096
"""Compilations that torch is asked to remember; by itself it keeps the last 64."""

_COMPILE_ID = re.compile(r"(\d+)/(\d+)$")
_BREAK_AT = re.compile(r"^Graph break in user code at (.*):(\d+)$", re.MULTILINE)
_FRAME = re.compile(r'^\s*File "(.*)", line (\d+)', re.MULTILINE)
_CACHE = re.compile(r"^(fx_graph|aotautograd)_cache_(hit|miss)$")
_CACHE_COUNTS = {
    "fx_graph": "inductor_fx_local",
    "fx_graph_remote": "inductor_fx_remote",
    "aotautograd": "aotautograd_local",
    "aotautograd_remote": "aotautograd_remote",
}


@dataclass(slots=True)
class _Event:
    """A row of ``compile_event``; ``compile_id`` as torch writes it ("2/1")."""

    kind: str
    ts: int
    compile_id: str | None
    dur: int | None = None
    name: str | None = None
    reason: str | None = None
    file: str | None = None
    line: int | None = None


@dataclass(slots=True)
class _Span:
    """One outermost compilation, between Dynamo's callbacks."""

    compile_id: str
    trigger: str
    thread: int
    began: int
    ended: int


class CompileChannel:
    """Compile events, and a slice ``torch.compile …`` for each time that a thread compiled.

    It adds no guard, mode or hook to what is compiled: graphs, breaks and recompiles are those of a run without it.
    """

    name = "compile"

    def __init__(self, logs: bool = False) -> None:
        self.problems: list[str] = []
        self.overhead_ns = 0
        self._logs = logs
        self._handler: _Handler | None = None
        self._started_ns: int | None = None
        self._seen = 0
        self._last: Any = None

    def start(self) -> None:
        """Register with Dynamo (which this imports)."""
        if self._started_ns is not None:
            return
        import torch._dynamo.utils
        from torch._dynamo.callback import callback_handler

        self.problems, self.overhead_ns = [], 0
        self._utils: Any = torch._dynamo.utils
        self._callbacks: Any = callback_handler
        self._pid, self._thread = os.getpid(), threading.get_native_id()
        self._spans: list[_Span] = []
        self._breaks: list[_Event] = []
        self._open: tuple[int, int] | None = None
        self._remember(self._utils.graph_break_reasons)
        self._limit = self._utils._compilation_metrics.maxlen
        self._utils.set_compilation_metrics_limit(max(MAX_METRICS, self._limit or 0))
        self._on_start, self._on_end = self._compile_starts, self._compile_ends
        callback_handler.register_start_callback(self._on_start)
        callback_handler.register_end_callback(self._on_end)
        if self._logs:
            from torch._logging._internal import trace_log

            self._handler = _Handler()
            trace_log.addHandler(self._handler)
        self._started_ns = time.time_ns()

    def stop(self) -> RawTrace | None:
        """Unregister; compile events and slices since ``start``."""
        started, self._started_ns = self._started_ns, None
        if started is None:
            return None
        began = time.thread_time_ns()
        self._unregister()
        metrics = [m for m in self._utils.get_compilation_metrics() if _start_ns(m) >= started - 1_000]
        if len(metrics) == MAX_METRICS:
            self.problems.append(f"more than {MAX_METRICS:,} compilations; the first were forgotten")
        self._utils.set_compilation_metrics_limit(self._limit)
        handler, self._handler = self._handler, None
        if self._pid != os.getpid():
            return None
        self._see_breaks(None)
        events = list(_from_metrics(metrics, skipped_frames=handler is None))
        if handler is None:
            events += self._breaks
        else:
            self.problems += handler.problems
            sources = {m.compile_id: (m.co_filename, m.co_firstlineno) for m in metrics if m.co_filename}
            for event in handler.events:
                if event.kind == "recompile" and event.file is None:
                    event.file, event.line = sources.get(event.compile_id, (None, None))
            exact = {event.kind for event in handler.events}
            events = [event for event in events if event.kind not in exact] + handler.events
            # torch counts for itself what preparing its structured trace takes.
            self.overhead_ns += sum(getattr(m, "structured_logging_overhead_us", None) or 0 for m in metrics) * 1_000
        names: dict[str, str] = {m.compile_id: m.co_name for m in metrics if m.co_name}
        raw = self._build(events, names) if events or self._spans else None
        self.overhead_ns += time.thread_time_ns() - began
        return raw

    def _unregister(self) -> None:
        if self._handler is not None:
            from torch._logging._internal import trace_log

            trace_log.removeHandler(self._handler)
        try:
            self._callbacks.remove_start_callback(self._on_start)
            self._callbacks.remove_end_callback(self._on_end)
        except ValueError:  # torch._dynamo.reset() removes everyone's
            if self._handler is None:
                self.problems.append(
                    "torch._dynamo.reset() was called: later compilations have no slice, "
                    "and some of their graph breaks may be missing"
                )

    def _compile_starts(self, args: Any) -> None:
        self._open = (time.time_ns(), threading.get_native_id())

    def _compile_ends(self, args: Any) -> None:
        began = time.thread_time_ns()
        if self._open is not None:
            (ts, thread), self._open = self._open, None
            self._spans.append(_Span(args.compile_id, args.callback_trigger.name, thread, ts, time.time_ns()))
        self._see_breaks(args.compile_id)
        self.overhead_ns += time.thread_time_ns() - began

    def _see_breaks(self, compile_id: str | None) -> None:
        """Take over the graph breaks that Dynamo noted since the last look."""
        reasons = self._utils.graph_break_reasons
        if self._seen and (len(reasons) < self._seen or reasons[self._seen - 1] is not self._last):
            self._seen = 0  # torch._dynamo.reset() cleared them
        for reason in reasons[self._seen :]:
            frame = reason.user_stack[-1] if reason.user_stack else None
            self._breaks.append(
                _Event(
                    "graph_break",
                    time.time_ns(),
                    compile_id,
                    reason=_first_paragraph(reason.reason),
                    file=frame.filename if frame else None,
                    line=frame.lineno if frame else None,
                )
            )
        self._remember(reasons)

    def _remember(self, reasons: list[Any]) -> None:
        self._seen = len(reasons)
        self._last = reasons[-1] if reasons else None

    def _build(self, events: list[_Event], names: dict[str, str]) -> RawTrace:
        builder = RawBuilder()
        for span in self._spans:
            what = names.get(span.compile_id, "")
            phase = {"DYNAMO": "", "LAZY_BACKWARD": " backward"}.get(span.trigger, f" {span.trigger.lower()}")
            builder.add(
                "slice",
                ts=span.began,
                dur=max(span.ended - span.began, 0),
                track=builder.track(self._pid, span.thread),
                name=f"torch.compile {what} {span.compile_id}{phase}".replace("  ", " "),
                category=CATEGORY,
            )
        for event in sorted(events, key=lambda e: e.ts):
            number = _COMPILE_ID.search(event.compile_id or "")
            builder.add(
                "compile",
                ts=event.ts,
                dur=event.dur,
                kind=event.kind,
                frame=int(number[1]) if number else None,
                frame_compile=int(number[2]) if number else None,
                name=event.name if event.name is not None else names.get(event.compile_id or ""),
                reason=event.reason,
                file=event.file,
                line=event.line,
            )
        return builder.build()


class _Handler(logging.Handler):
    """Listens to torch's structured trace; keeps the few records that are events."""

    def __init__(self) -> None:
        super().__init__()
        self.events: list[_Event] = []
        self.problems: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep what is an event; never raises."""
        try:
            self._read(time.time_ns(), record.metadata, record.payload)  # type: ignore[attr-defined]
        except Exception as error:
            if not self.problems:
                self.problems.append(f"a record of torch's structured trace could not be read: {error!r}")

    def _read(self, ts: int, metadata: dict[str, Any], payload: Any) -> None:
        artifact = metadata.get("artifact")
        if artifact is None:
            return
        frame, attempt = metadata.get("frame_id"), metadata.get("frame_compile_id")
        compile_id = None if frame is None or attempt is None else f"{frame}/{attempt}"
        if artifact["name"] == "dynamo_graph_break_reason":
            self.events.append(_graph_break(ts, compile_id, payload))
        elif artifact["name"] == "recompile_reasons":
            reasons = json.loads(payload) if payload[:1] == "[" else [payload]
            self.events.append(_recompile(ts, compile_id, reasons))
        elif found := _CACHE.match(artifact["name"]):
            self.events.append(_Event(f"cache_{found[2]}", ts, compile_id, name=found[1]))


def _graph_break(ts: int, compile_id: str | None, text: str) -> _Event:
    at = _BREAK_AT.search(text)
    frames = _FRAME.findall(text)
    file, line = at.groups() if at else frames[-1] if frames else (None, None)
    _, _, reason = text.partition("Graph Break Reason: ")
    paragraphs = (reason or text).split("\n\n")
    while len(paragraphs) > 1 and paragraphs[0].endswith(":"):  # what it was about to do; the cause follows
        del paragraphs[0]
    reason = _first_paragraph(paragraphs[0])
    return _Event("graph_break", ts, compile_id, reason=reason, file=file, line=int(line) if line else None)


def _recompile(ts: int, compile_id: str | None, reasons: Iterable[str]) -> _Event:
    """The user's line is where the value was guarded, if torch says."""
    file = line = None
    texts = []
    for reason in reasons:
        text, _, stack = reason.partition("\nUser stack trace:\n")
        texts.append(re.sub(r"\s+", " ", text).strip())
        frames = _FRAME.findall(stack)
        if frames and file is None:
            file, line = frames[-1][0], int(frames[-1][1])
    return _Event("recompile", ts, compile_id, reason="; ".join(texts), file=file, line=line)


def _from_metrics(metrics: list[Any], *, skipped_frames: bool) -> Iterable[_Event]:
    """What Dynamo's metrics of each compilation say; ``skipped_frames``: graph breaks that cost the whole frame."""
    names = {m.compile_id: m.co_name for m in metrics if m.co_name}
    for m in metrics:
        ts, duration = _start_ns(m), getattr(m, "duration_us", None)
        failure = f"{m.fail_type}: {_first_paragraph(m.fail_reason or '')}" if m.fail_type else None
        name = m.co_name or names.get(m.compile_id)
        if name and m.is_forward is False:
            name += " (backward)"
        yield _Event(
            "compile",
            ts,
            m.compile_id,
            dur=None if duration is None else duration * 1_000,
            name=name,
            reason=failure,
            file=m.co_filename,
            line=m.co_firstlineno,
        )
        if reason := getattr(m, "recompile_reason", None):
            event = _recompile(ts, m.compile_id, [reason])
            if event.file is None:
                event.file, event.line = m.co_filename, m.co_firstlineno
            yield event
        if skipped_frames and m.fail_type == "Unsupported":
            file, line = m.fail_user_frame_filename, m.fail_user_frame_lineno
            text = _first_paragraph(m.fail_reason or "")
            yield _Event("graph_break", ts, m.compile_id, reason=text, file=file, line=line)
        for cache, field in _CACHE_COUNTS.items():
            for answer in ("hit", "miss"):
                for _ in range(getattr(m, f"{field}_cache_{answer}_count", None) or 0):
                    yield _Event(f"cache_{answer}", ts, m.compile_id, name=cache)


def _start_ns(metrics: Any) -> int:
    us = getattr(metrics, "start_time_us", None)
    return int(us * 1_000) if us is not None else int((metrics.start_time or 0) * 1e9)


def _first_paragraph(text: str) -> str:
    """What the developers of torch put below an empty line (context, links) is left out."""
    return text.strip().partition("\n\n")[0]
