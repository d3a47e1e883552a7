"""Chrome trace JSON as Kineto writes it: opens in Perfetto and chrome://tracing, and comes back the same.

Every event is one line.  A slice that overlaps an earlier one of its track goes to a track of its own, as
viewers drop it otherwise; the top-level key ``profsuite`` says so, and profsuite's reader puts it back.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import msgspec

from profsuite.exporters.chrome_events import Encoder
from profsuite.exporters.compile_events import compile_rows
from profsuite.exporters.facts import facts, valid
from profsuite.exporters.json_words import microseconds, track_id
from profsuite.exporters.pids import own_track, track_names
from profsuite.exporters.rows import Rendering, words
from profsuite.exporters.timeline import FlowIds, Timeline, common_base, timelines
from profsuite.trace.marks import FORMAT as MARKS_FORMAT
from profsuite.trace.marks import KEY, RANKS
from profsuite.trace.readers.fields import GROUPS

if TYPE_CHECKING:
    from profsuite.exporters.source import Source
    from profsuite.exporters.target import Sink, Target
    from profsuite.trace.batches import Batches

_OWN: Final = frozenset({"process_name", "process_sort_index"})
"""Metadata that a file of several ranks says in its own words."""


@dataclass(frozen=True, slots=True)
class Chrome:
    """The format."""

    name: str = "chrome"
    suffix: str = ".json"
    carries: str = "Everything: slices with all args, flows, counters, memory and other instants, metadata."
    compresses: bool = True
    merges: bool = True

    def write(self, source: Source, target: Target) -> str:
        """Write one file of all ranks."""
        with source.batches() as ranks, target.open() as out:
            num_events = _Writer(out, timelines(ranks), ranks).write()
        return f"{num_events:,} events"


FORMAT = Chrome()


@dataclass
class _Writer:
    """One file."""

    out: Sink
    ranks: list[Timeline]
    batches: list[Batches]
    added: list[str] = field(default_factory=list)
    num_events: int = 0
    _first: bool = True

    def write(self) -> int:
        """Header, events, mark; returns the number of events."""
        head = "".join(f"  {json.dumps(key, ensure_ascii=False)}: {text},\n" for key, text in self._header())
        self.out.write(b"{\n" + head.encode("utf-8", "replace") + b'  "traceEvents": [\n')
        mark: dict[str, Any] = {"format": MARKS_FORMAT, "tracks": [], "lanes": []}
        flow_ids = FlowIds(self.ranks)
        for rank in self.ranks:
            first = len(mark["tracks"])
            names = track_names(rank)
            num = len(rank.batches.tracks)
            mark["tracks"] += names[:num]
            mark["lanes"] += [[*names[i], first + rank.tracks[i].number] for i in range(num, len(names))]
            self._rank(rank, names, flow_ids, mark)
        if len(self.ranks) == 1:
            mark |= {"selection": self.batches[0].info.selection}
        if self.added:
            mark["added"] = self.added
        end = b"\n" if self.num_events else b""
        self.out.write(end + b'  ],\n  "' + KEY.encode() + b'": ' + json.dumps(mark).encode() + b"\n}\n")
        return self.num_events

    def _header(self) -> list[tuple[str, str]]:
        """Top-level keys: the file's own, and those without which the trace would not come back."""
        info = self.batches[0].info
        if len(self.batches) > 1:
            base = common_base(self.batches)
            known = [("baseTimeNanoseconds", json.dumps(base))] if base else []
            self.added = ["schemaVersion", "displayTimeUnit", "deviceProperties"]
            devices = valid(json.dumps(list(info.devices)))
            ranks = json.dumps([each.info.rank for each in self.batches])
            return [
                ("schemaVersion", "1"),
                (RANKS, ranks),
                *known,
                ("displayTimeUnit", '"ms"'),
                ("deviceProperties", devices),
            ]
        header = [(key, valid(text)) for key, text in self.batches[0].header]
        known_keys = {key for key, _ in header}
        for key, made in facts(info).items():
            if key not in known_keys:
                header.append((key, made))
                self.added.append(key)
        return header

    def _rank(self, rank: Timeline, names: list[list[str]], flow_ids: FlowIds, mark: dict[str, Any]) -> None:
        places = words([b'"pid": ' + track_id(pid) + b', "tid": ' + track_id(tid) for pid, tid in names])
        encoder = Encoder(places)
        self._add(mark, *encoder.lines(_track_events(rank, names)))
        for columns, track in rank.points("meta"):
            self._emit(*encoder.meta(columns, track, _OWN if len(self.ranks) > 1 else frozenset()))
        for batch in rank.slices():
            self._emit(*encoder.slices(batch))
        for columns, track in rank.points("flow"):
            self._emit(*encoder.flows(flow_ids.of(rank, columns), track))
        for columns, track in rank.points("counter"):
            self._emit(*encoder.counters(columns, track))
        for columns, track in rank.points("instant"):
            self._emit(*encoder.instants(columns, track))
        for columns, track in rank.points("memory"):
            self._emit(*encoder.memory(columns, track))
        if len(self.ranks) == 1 and (tensors := compile_rows(rank.batches, "tensor")):
            mark["tensors"] = tensors
        compiled = compile_rows(rank.batches)
        if compiled and len(self.ranks) == 1:
            mark["compile_events"] = compiled
            place = own_track(names)
            mark["lanes"].append([*place, -1])
            self._add(mark, *encoder.lines(_compile_events(compiled, place)))

    def _add(self, mark: dict[str, Any], num_events: int, text: bytes) -> None:
        """Events that the trace has not."""
        mark["num_added"] = mark.get("num_added", 0) + num_events
        self._emit(num_events, text)

    def _emit(self, num_events: int, lines: Rendering | bytes) -> None:
        """Events, each after a comma and a line end; the file's first without."""
        if not num_events:
            return
        if self._first:
            self._first = False
            lines = b"".join(lines.pieces() if isinstance(lines, Rendering) else (lines,))[2:]
        self.out.write(lines)
        self.num_events += num_events


def _track_events(rank: Timeline, names: list[list[str]]) -> list[dict[str, Any]]:
    """Metadata of tracks that are not the trace's own, and of processes where there are several ranks."""
    events: list[dict[str, Any]] = []

    def say(scope: str, place: list[str], **args: Any) -> None:
        pid, tid = (msgspec.Raw(track_id(text)) for text in place)
        events.append({"ph": "M", "name": scope, "pid": pid, "tid": tid, "args": args})

    known = rank.names
    if rank.num_ranks > 1:
        pids = dict.fromkeys(pid for pid, _ in rank.batches.tracks)
        written: dict[str, tuple[int, list[str]]] = {}
        for i, (pid, _) in enumerate(rank.batches.tracks):
            written.setdefault(pid, (i, names[i]))
        for order, pid in enumerate(pids):
            i, place = written[pid]
            process = known["process_name"][i] or "process"
            say("process_name", place, name=f"rank {rank.rank}: {process} {pid}".rstrip())
            say("process_sort_index", place, sort_index=rank.number * 1_000 + order)
    for track, place in zip(rank.tracks, names, strict=True):
        if track.lane:
            base = known["thread_name"][track.number] or rank.batches.tracks[track.number][1]
            say("thread_name", place, name=f"{base} (overlapping, {track.lane})")
            index = known["thread_sort_index"][track.number]
            if index is not None and index.removeprefix("-").isdecimal():
                say("thread_sort_index", place, sort_index=msgspec.Raw(track_id(index)))
    return events


def _compile_events(rows: list[list[Any]], place: list[str]) -> list[dict[str, Any]]:
    """What torch.compile did, as instants on a track of their own."""
    names = [name for name, _, _ in GROUPS["compile"]]
    pid, tid = (msgspec.Raw(track_id(text)) for text in place)
    events: list[dict[str, Any]] = [
        {"ph": "M", "name": "thread_name", "pid": pid, "tid": tid, "args": {"name": "torch.compile"}}
    ]
    for row in rows:
        args = {name: item for name, item in zip(names, row, strict=True) if item is not None and name != "ts"}
        if "dur" in args:
            args["dur_ns"] = args.pop("dur")
        ts = msgspec.Raw(microseconds(row[0]))
        name = str(row[names.index("kind")] or "compile")
        events.append(
            {"ph": "i", "s": "p", "cat": "torch_compile", "name": name, "pid": pid, "tid": tid, "ts": ts, "args": args}
        )
    return events
