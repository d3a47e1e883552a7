"""Perfetto's own format: smaller than JSON, opens faster, exact to the nanosecond.

A viewer sorts packets by time and takes those of one time in the order of the file.  So all ends of slices come
first, then begins, the longer of two at one time before the shorter, then what has no length: every slice nests.
The trace's own columns lie in front, in packets that viewers skip: profsuite reads them back.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pyarrow as pa

from profsuite.exporters.compile_events import compile_rows
from profsuite.exporters.facts import facts
from profsuite.exporters.flow_binding import FlowEnds, bind_flows
from profsuite.exporters.json_words import numbered
from profsuite.exporters.perfetto_events import Encoder, Interner, ends, first_packet, flow_words, packet
from profsuite.exporters.perfetto_tracks import Tracks
from profsuite.exporters.protobuf import delimited, number
from profsuite.exporters.slice_order import late_rows
from profsuite.exporters.timeline import timelines
from profsuite.trace.columns import Text, strings
from profsuite.trace.embedded import embed, embed_ranks
from profsuite.trace.marks import FORMAT as MARKS_FORMAT
from profsuite.trace.marks import KEY

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from profsuite.exporters.source import Source
    from profsuite.exporters.target import Sink, Target
    from profsuite.exporters.timeline import Slices, Timeline
    from profsuite.trace.batches import Batches

_CLOCKS, _DESCRIPTOR = 6, 60
_REALTIME, _BOOTTIME = 1, 6


@dataclass(frozen=True, slots=True)
class Perfetto:
    """The format."""

    name: str = "perfetto"
    suffix: str = ".pftrace"
    carries: str = "Everything; viewers see slices with all args, flows, counters, memory and other instants."
    compresses: bool = False
    merges: bool = True

    def write(self, source: Source, target: Target) -> str:
        """Write one file of all ranks."""
        with source.batches() as ranks, target.open() as out:
            num_slices = _Writer(out, timelines(ranks)).write(ranks)
        return f"{num_slices:,} slices"


FORMAT = Perfetto()


@dataclass
class _Writer:
    """One file."""

    out: Sink
    ranks: list[Timeline]
    tracks: Tracks = field(default_factory=Tracks)

    def write(self, batches: list[Batches]) -> int:
        """Columns, descriptors, events; returns the number of slices."""
        if len(batches) == 1:
            embed(batches[0], _marked(batches[0]), self.out.write)
        else:
            embed_ranks([rank.info.rank for rank in batches], self.out.write)
        self.out.write(first_packet())
        self._clock(batches)
        interner = Interner(self.out.write)
        for rank in self.ranks:
            self._rank(rank, interner)
        return sum(rank.num_rows("slice") for rank in batches)

    def _clock(self, batches: list[Batches]) -> None:
        """What time of day the first time of the trace is, where that is known."""
        known = [rank.info.base_time_ns for rank in batches if rank.info.base_time_ns is not None]
        if not known:
            return
        ts = next((int(cast("Any", batch["ts"])[0]) for batch in batches[0].batches("slice")), 0)
        if ts < 0 or min(known) + ts >= 2**63:
            return
        clocks = [(_BOOTTIME, ts), (_REALTIME, min(known) + ts)]
        body = b"".join(delimited(1, number(1, clock) + number(2, time)) for clock, time in clocks)
        self.out.write(packet(delimited(_CLOCKS, body)))

    def _rank(self, rank: Timeline, interner: Interner) -> None:
        uuids, made = self.tracks.of(rank)
        for body in made:
            self.out.write(packet(delimited(_DESCRIPTOR, body)))
        encoder = Encoder(interner, np.array(uuids, np.int64))
        late = late_rows(*rank.columns_only())
        flows = bind_flows(rank)
        pa.default_memory_pool().release_unused()
        self._ends(rank, np.array(uuids, np.int64))
        self._begins(rank, encoder, flows, late)
        loose = int(np.searchsorted(flows.row, 0))
        if loose:
            self.out.write(
                encoder.flow_ends(flows.ts[:loose], flows.track[:loose], flows.flow[:loose], flows.last[:loose])
            )
        for columns, track in rank.points("instant"):
            self.out.write(encoder.instants(columns, track))
        memory = Text(np.zeros(0, np.int32), strings(["[memory]"]))
        for columns, track in rank.points("memory"):
            self.out.write(encoder.memory(columns, track, Text(np.zeros(len(track), np.int32), memory.pool)))
        self._counters(rank, encoder, uuids)
        self._compile(rank, encoder, interner)

    def _ends(self, rank: Timeline, uuids: NDArray[np.int64]) -> None:
        for batch in rank.slices_only():
            ts, dur = (cast("NDArray[np.int64]", batch.columns[name]) for name in ("ts", "dur"))
            rows = np.flatnonzero(dur > 0)
            self.out.write(ends((ts + dur)[rows], uuids[batch.track[rows]]))

    def _begins(self, rank: Timeline, encoder: Encoder, flows: FlowEnds, late: NDArray[np.int64]) -> None:
        """Begins in the order of the rows but for those that are late, then slices without length."""
        place = np.argsort(late)
        by_row = late[place]
        held: list[bytes] = [b""] * len(late)
        points = False
        for batch in rank.slices():
            dur = cast("NDArray[np.int64]", batch.columns["dur"])
            points = points or bool((dur == 0).any())
            bounds = np.searchsorted(by_row, [batch.first, batch.first + len(batch)])
            own = by_row[bounds[0] : bounds[1]] - batch.first
            now = dur > 0
            now[own] = False
            words = _flow_words(flows, batch)
            self.out.write(encoder.slices(batch, np.flatnonzero(now), words, instant=False))
            if len(own):
                packets = _packets(b"".join(encoder.slices(batch, own, words, instant=False).pieces()))
                for number_, data in zip(place[bounds[0] : bounds[1]].tolist(), packets, strict=True):
                    held[number_] = data
        self.out.write(b"".join(held))
        for batch in rank.slices() if points else ():
            rows = np.flatnonzero(cast("NDArray[np.int64]", batch.columns["dur"]) == 0)
            if len(rows):
                self.out.write(encoder.slices(batch, rows, _flow_words(flows, batch), instant=True))

    def _counters(self, rank: Timeline, encoder: Encoder, parents: list[int]) -> None:
        known: dict[tuple[int, str, str], int] = {}
        for columns, track in rank.points("counter"):
            name, series = cast("Text", columns["name"]), cast("Text", columns["series"])
            cells = (track.astype(np.int64) * len(name.pool) + name.codes) * len(series.pool) + series.codes
            codes, found = numbered(cells)
            uuids = []
            for cell in found.tolist():
                place, of_series = divmod(cell, len(series.pool))
                place, of_name = divmod(place, len(name.pool))
                key = (place, str(name.pool[of_name].as_py()), str(series.pool[of_series].as_py()))
                if key not in known:
                    title = key[1] if key[2] in ("value", key[1]) else f"{key[1]}: {key[2]}"
                    known[key], body = self.tracks.counter(title, parents[place])
                    self.out.write(packet(delimited(_DESCRIPTOR, body)))
                uuids.append(known[key])
            self.out.write(encoder.counters(columns, np.array(uuids, np.int64)[codes]))

    def _compile(self, rank: Timeline, encoder: Encoder, interner: Interner) -> None:
        """What torch.compile did, as instants on a track of their own."""
        rows = compile_rows(rank.batches)
        if not rows:
            return
        uuid, body = self.tracks.own("torch.compile")
        self.out.write(packet(delimited(_DESCRIPTOR, body)))
        texts = [": ".join(str(part) for part in (row[2], row[5], row[6]) if part) for row in rows]
        codes = np.arange(len(rows), dtype=np.int32)
        columns: dict[str, NDArray[Any] | Text] = {
            "ts": np.array([row[0] for row in rows], np.int64) + rank.shift,
            "name": Text(codes, strings(texts)),
            "category": Text(np.zeros(len(rows), np.int32), strings(["torch_compile"])),
        }
        own = Encoder(interner, np.array([uuid], np.int64))
        self.out.write(own.instants(columns, np.zeros(len(rows), np.int32)))


def _flow_words(flows: FlowEnds, batch: Slices) -> Any:
    low, high = np.searchsorted(flows.row, [batch.first, batch.first + len(batch)])
    if low == high:
        return None
    return flow_words(len(batch), flows.row[low:high] - batch.first, flows.flow[low:high], flows.last[low:high])


def _packets(data: bytes) -> list[bytes]:
    """Packets that ``render`` wrote, one a row: their lengths are varints of four bytes."""
    found, at = [], 0
    while at < len(data):
        size = 5 + sum((data[at + 1 + i] & 127) << 7 * i for i in range(4))
        found.append(data[at : at + size])
        at += size
    return found


def _marked(batches: Batches) -> list[tuple[str, str]]:
    """The header, what is known beyond it, and the mark that says what was added."""
    header = list(batches.header)
    known = {key for key, _ in header}
    added = {key: text for key, text in facts(batches.info).items() if key not in known}
    mark = {
        "format": MARKS_FORMAT,
        "tracks": batches.tracks,
        "added": list(added),
        "selection": batches.info.selection,
    }
    return [*header, *added.items(), (KEY, json.dumps(mark))]
