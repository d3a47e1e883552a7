"""Raw columns on disk: a file of any size read in bounded memory, and parts of it loaded again.

``write`` streams a reader's batches into one uncompressed-by-column Arrow IPC file a group (LZ4).
``Spill`` finds the steps in them and loads what belongs to a stretch of time, batch by batch.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast

import numpy as np
import pyarrow as pa

from profsuite.trace.classes import DEVICE_WORK, Role, category_roles, role_mask
from profsuite.trace.columns import array_of, strings, to_numpy
from profsuite.trace.readers.fields import NULL_INT64, POOLS
from profsuite.trace.readers.raw import RawTrace, Remark
from profsuite.trace.relations import Slices, Steps, find_steps

if TYPE_CHECKING:
    from concurrent.futures import Future

    from numpy.typing import NDArray

    Columns = dict[str, dict[str, NDArray[Any]]]

BATCH_ROWS = 65_536
MANIFEST = "spill.json"
FORMAT = 1


class RawScanner(Protocol):
    """A reader that hands over its rows as it goes."""

    header: list[tuple[str, str]]
    tracks: list[tuple[str, str]]
    num_events: int
    num_bytes: int
    num_rows: int
    remarks: list[Remark]

    def feed(self, data: bytes) -> None:
        """Read the next bytes."""

    def finish(self) -> None:
        """The input has ended."""

    def take(self) -> Columns:
        """The rows since the last call."""

    def new_strings(self, pool: str) -> list[str]:
        """What a pool gained since the last call."""


def write(scanner: Any, chunks: Iterable[bytes], folder: Path, done: Callable[[int], None]) -> None:
    """Read ``chunks`` through ``scanner`` (a ``RawScanner``) into ``folder``, a batch in memory at a time."""
    from concurrent.futures import ThreadPoolExecutor  # takes 10 ms, of which most loads have no use

    folder.mkdir(parents=True, exist_ok=True)
    # Threads would keep buffers of their own, 40 MB in all, and the few columns of a batch gain nothing by them.
    options = pa.ipc.IpcWriteOptions(compression="lz4", use_threads=False)
    writers: dict[str, Any] = {}
    rows = dict.fromkeys(["slice"], 0)
    with ExitStack() as stack, ThreadPoolExecutor(1, "profsuite-spill") as disk:
        written: Future[None] | None = None

        def keep(groups: Columns) -> None:
            for group, columns in groups.items():
                count = len(next(iter(columns.values())))
                rows[group] = rows.get(group, 0) + count
                if not count and group in writers:
                    continue
                batch = pa.record_batch([array_of(values) for values in columns.values()], names=list(columns))
                if group not in writers:
                    sink = stack.enter_context(pa.OSFile(str(folder / f"{group}.arrow"), "wb"))
                    writers[group] = stack.enter_context(pa.ipc.new_file(sink, batch.schema, options=options))
                writers[group].write_batch(batch)

        for chunk in chunks:
            scanner.feed(chunk)
            if scanner.num_rows >= BATCH_ROWS:
                if written is not None:
                    written.result()
                written = disk.submit(keep, scanner.take())  # packs while the next are read
            done(scanner.num_bytes)
        scanner.finish()
        if written is not None:
            written.result()
        keep(scanner.take())
    for pool in POOLS:
        table = pa.table({"text": strings(scanner.new_strings(pool))})
        with pa.OSFile(str(folder / f"pool-{pool}.arrow"), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table)
    manifest = {
        "format": FORMAT,
        "rows": rows,
        "tracks": scanner.tracks,
        "header": scanner.header,
        "num_events": scanner.num_events,
        "num_bytes": scanner.num_bytes,
        "remarks": [asdict(remark) for remark in scanner.remarks],
    }
    (folder / MANIFEST).write_text(json.dumps(manifest), "utf-8")


class Spill:
    """A folder that ``write`` filled from ``source``."""

    def __init__(self, folder: Path, source: str) -> None:
        self.folder = folder
        self.source = source
        self.manifest: dict[str, Any] = json.loads((folder / MANIFEST).read_text("utf-8"))
        self.pools: dict[str, pa.StringArray] = {}
        for pool in POOLS:
            with pa.memory_map(str(folder / f"pool-{pool}.arrow")) as file:
                words: list[Any] = pa.ipc.open_file(file).read_all().column(0).to_pylist()
            self.pools[pool] = strings(words)
        self.num_slices = int(self.manifest["rows"]["slice"])
        roles = category_roles(self.pools["category"].to_pylist())
        self._roles = np.append(roles, np.int8(Role.OTHER))

    def batches(self, group: str, columns: Iterable[str] | None = None) -> Iterator[dict[str, NDArray[Any]]]:
        """The batches of a group in file order; only some columns if named."""
        # not mapped: pages of a map count as resident until it is closed
        with pa.OSFile(str(self.folder / f"{group}.arrow"), "rb") as source:
            names = pa.ipc.open_file(source).schema.names
            wanted = names if columns is None else list(columns)
            fields = sorted(names.index(name) for name in wanted)
            # Threads would keep 60 MB of buffers of their own here, too.
            options = pa.ipc.IpcReadOptions(included_fields=fields, use_threads=False)
            reader = pa.ipc.open_file(source, options=options)
            for i in range(reader.num_record_batches):
                batch = reader.get_batch(i)
                yield {name: to_numpy(batch.column(k)) for k, name in enumerate(batch.schema.names)}

    def steps(self) -> Steps:
        """The steps that the slices mark; their ``row`` counts the marks, not the slices."""
        marks: list[dict[str, NDArray[Any]]] = []
        names = self.pools["name"].to_pylist()
        marks_of = [str(name).startswith(("ProfilerStep#", "Iteration#")) for name in names]
        marked: NDArray[np.bool_] = np.array([*marks_of, False], bool)
        number = self._step_numbers()
        first = 0
        for batch in self.batches("slice", ("ts", "dur", "track", "name", "category")):
            own = number[first : first + len(batch["ts"])]
            rows = np.flatnonzero(marked[batch["name"]] | (own != NULL_INT64))
            marks.append({**{name: values[rows] for name, values in batch.items()}, "number": own[rows]})
            first += len(batch["ts"])
        columns = {name: np.concatenate([m[name] for m in marks]) for name in marks[0]} if marks else {}
        if not marks:
            columns = {name: np.zeros(0, np.int64) for name in ("ts", "dur", "track", "name", "category", "number")}
        numbered = np.flatnonzero(columns["number"] != NULL_INT64)
        roles = self._roles[columns["category"].astype(np.int32)]
        roles[numbered] = Role.ANNOTATION  # XLA's marks have no category until a trace is assembled
        none = np.full(len(columns["ts"]), NULL_INT64)
        return find_steps(
            Slices(
                columns["ts"],
                np.maximum(columns["dur"], 0),
                columns["track"].astype(np.int32),
                columns["name"].astype(np.int32),
                roles,
                none,
                none,
                np.full(len(none), -1, np.int32),
                self.pools["name"],
            ),
            numbered.astype(np.int32),
            columns["number"][numbered],
        )

    def _step_numbers(self) -> NDArray[np.int64]:
        """The step that each slice marks by an arg, null where none."""
        number = np.full(self.num_slices, NULL_INT64, np.int64)
        for batch in self.batches("xla", ("row", "step")):
            number[batch["row"]] = batch["step"]
        return number

    def extent(self) -> tuple[int, int]:
        """First start and last end of the slices, ns; (0, 0) without slices."""
        first, last = 2**63 - 1, -(2**63)
        for batch in self.batches("slice", ("ts", "dur")):
            if len(batch["ts"]):
                first = min(first, int(batch["ts"].min()))
                last = max(last, int((batch["ts"] + np.maximum(batch["dur"], 0)).max()))
        return (first, last) if first <= last else (0, 0)

    def counts(self, bounds: NDArray[np.int64]) -> NDArray[np.int64]:
        """How many slices start before each of the sorted ``bounds`` (ns)."""
        total = np.zeros(len(bounds), np.int64)
        for batch in self.batches("slice", ("ts",)):
            total += np.searchsorted(np.sort(batch["ts"]), bounds, side="left")
        return total

    def load(self, start: int, stop: int) -> RawTrace:
        """The raw trace of what touches [start, stop), ns: slices that overlap it, the device work that
        those launched and the calls that launched those, wherever they ran, and the points in time from a second
        before to a second after.
        """
        launched = self._correlations(start, stop, (Role.LAUNCH,))
        working = self._correlations(start, stop, DEVICE_WORK)
        groups: Columns = {}
        keep: list[NDArray[np.bool_]] = []
        parts: list[dict[str, NDArray[Any]]] = []
        for batch in self.batches("slice"):
            rows = self._overlaps(batch, start, stop)
            if len(launched):
                device = role_mask(self._roles[batch["category"]], DEVICE_WORK)
                rows |= device & np.isin(batch["correlation"], launched)
            if len(working):
                rows |= (self._roles[batch["category"]] == Role.LAUNCH) & np.isin(batch["correlation"], working)
            keep.append(rows)
            parts.append({name: values[rows] for name, values in batch.items()})
        groups["slice"] = _joined(parts)
        kept = np.concatenate(keep) if keep else np.zeros(0, bool)
        number = np.cumsum(kept, dtype=np.int32)
        number -= 1
        for group in self.manifest["rows"]:
            if group == "slice":
                continue
            parts = []
            for batch in self.batches(group):
                if "row" in batch:
                    rows = kept[batch["row"]]
                    part = {name: values[rows] for name, values in batch.items()}
                    part["row"] = number[part["row"]]
                elif "ts" in batch:
                    rows = (batch["ts"] >= start - 10**9) & (batch["ts"] < stop + 10**9)
                    part = {name: values[rows] for name, values in batch.items()}
                else:
                    part = batch
                parts.append(part)
            groups[group] = _joined(parts)
        return RawTrace(
            groups=groups,
            pools=self.pools,
            tracks=[(pid, tid) for pid, tid in self.manifest["tracks"]],
            header=[(key, value) for key, value in self.manifest["header"]],
            num_events=int(self.manifest["num_events"]),
            num_bytes=int(self.manifest["num_bytes"]),
            remarks=[Remark(**remark) for remark in self.manifest["remarks"]],
        )

    def _overlaps(self, batch: dict[str, NDArray[Any]], start: int, stop: int) -> NDArray[np.bool_]:
        ts, dur = batch["ts"], batch["dur"]
        open_ended = dur < 0  # a B whose E is not known here
        return cast("NDArray[np.bool_]", (ts < stop) & ((ts + np.maximum(dur, 0) > start) | (ts >= start) | open_ended))

    def _correlations(self, start: int, stop: int, roles: Iterable[Role]) -> NDArray[np.int64]:
        """Correlation ids of the slices of these roles that overlap [start, stop)."""
        ids = []
        for batch in self.batches("slice", ("ts", "dur", "category", "correlation")):
            rows = self._overlaps(batch, start, stop) & role_mask(self._roles[batch["category"]], roles)
            ids.append(batch["correlation"][rows])
        found = np.unique(np.concatenate(ids)) if ids else np.zeros(0, np.int64)
        return found[found >= 0]


def _joined(parts: list[dict[str, NDArray[Any]]]) -> dict[str, NDArray[Any]]:
    return {name: np.concatenate([part.pop(name) for part in parts]) for name in list(parts[0])}
