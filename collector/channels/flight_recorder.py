"""torch.distributed's flight recorder: the last collectives of this rank, as JSON and as rows of ``collective``.

torch keeps them in a ring of TORCH_FR_BUFFER_SIZE entries, with state, sizes and the Python stack of each call; it
is what tells which rank did not arrive when a job hangs.
"""

from __future__ import annotations

import json
import math
import os
import pickle
import re
import sys
import time
from typing import TYPE_CHECKING, Any

from profsuite.collector.recording import RawBuilder
from profsuite.trace.readers.raw import Remark, remark_message

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from profsuite.trace.readers.raw import RawTrace

CATEGORY = "flight_recorder"
FILE = "flight_recorder.json"
VARIABLE = "TORCH_FR_BUFFER_SIZE"
ENTRIES = 2_000
"""Size of the ring where the user chose none."""

_PEERS = re.compile(r"(\d+)(?:->|<-)(\d+)")


class FlightChannel:
    """Writes ``flight_recorder.json`` at ``stop``; each entry since ``start`` is a slice and a ``collective`` row.

    Entries have no measured duration on gloo, nor on NCCL without TORCH_NCCL_ENABLE_TIMING: their slices are 0 long,
    and trace health says so.  They lie on a track of their own, so that nobody takes them for a second recording of
    what a profiler saw.  ``folder`` tells where the file goes.
    """

    name = "flight"

    def __init__(self, folder: Callable[[], Path]) -> None:
        self.problems: list[str] = []
        self.overhead_ns = 0
        self.files: list[Path] = []
        self._folder = folder
        self._started_ns: int | None = None

    def start(self) -> None:
        """Have torch keep a ring, if it does not yet: it looks when it makes the first process group."""
        if self._started_ns is not None:
            return
        self.problems, self.overhead_ns, self.files = [], 0, []
        self._pid = os.getpid()
        self._set = VARIABLE not in os.environ and "TORCH_NCCL_TRACE_BUFFER_SIZE" not in os.environ
        if self._set:
            os.environ[VARIABLE] = str(ENTRIES)
        self._started_ns = time.time_ns()

    def stop(self) -> RawTrace | None:
        """Write the file; None without an entry since ``start``."""
        started, self._started_ns = self._started_ns, None
        if started is None or self._pid != os.getpid():
            return None
        if self._set:
            os.environ.pop(VARIABLE, None)
        began = time.thread_time_ns()
        try:
            return self._dump(started)
        except Exception as error:
            self.problems.append(f"the flight recorder's entries were lost: {error}")
            return None
        finally:
            self.overhead_ns = time.thread_time_ns() - began

    def _dump(self, started: int) -> RawTrace | None:
        if "torch.distributed" not in sys.modules:
            return None
        import torch.distributed as dist

        # Nothing distributed happened, so nothing is missing.
        if not dist.is_available():
            return None
        c10d = sys.modules["torch._C._distributed_c10d"]
        dump = getattr(c10d, "_dump_fr_trace", None) or getattr(c10d, "_dump_nccl_trace", None)
        if dump is None:
            self.problems.append("this build of torch has no flight recorder")
            return None
        data = pickle.loads(dump())  # noqa: S301 (torch pickled it in this very process)
        entries = [entry for entry in data.get("entries", ()) if entry.get("time_created_ns", 0) >= started]
        if not entries:
            if dist.is_initialized() and not data.get("entries"):
                self.problems.append(
                    f"the flight recorder is off: set {VARIABLE}={ENTRIES} before the first process group is made"
                )
            return None
        self._write(data)
        rank = dist.get_rank() if dist.is_initialized() else None
        return _rows(entries, _groups(data, dist), rank)

    def _write(self, data: dict[str, Any]) -> None:
        try:
            path = self._folder() / FILE
            part = path.with_name(f".{FILE}.part")
            part.write_text(json.dumps(data, default=str), "utf-8")
            part.replace(path)
            self.files.append(path)
        except OSError as error:
            self.problems.append(f"{FILE} could not be written: {error}")


def _groups(data: dict[str, Any], dist: Any) -> dict[str, list[int]]:
    """Ranks of each process group by its name; what torch knows of it only until the group is destroyed."""
    groups: dict[str, list[int]] = {}
    for name, config in (data.get("pg_config") or {}).items():
        # gloo files all groups under no name, the last one wins: of no use.
        if name and isinstance(config.get("ranks"), str):
            groups[str(name)] = json.loads(config["ranks"])
    try:
        world = dist.distributed_c10d._world
        for group, name in world.pg_names.items():
            groups.setdefault(str(name), sorted(world.pg_group_ranks[group]))
    except (AttributeError, KeyError, RuntimeError):
        pass
    return groups


def _rows(entries: list[dict[str, Any]], groups: dict[str, list[int]], rank: int | None) -> RawTrace:
    """A slice and a ``collective`` row for each entry."""
    builder = RawBuilder()
    track = builder.track(os.getpid(), "flight recorder")
    builder.add_metadata(track, "thread_name", "name", "flight recorder")
    unmeasured = 0
    for entry in entries:
        name = str(entry.get("profiling_name") or "")
        ts, dur = _when(entry)
        unmeasured += dur is None
        row = builder.add("slice", ts=ts, dur=dur or 0, track=track, name=name, category=CATEGORY)
        group, description = (*entry.get("process_group", ()), None, None)[:2]
        members = groups.get(str(group))
        p2p = bool(entry.get("is_p2p"))
        peers = _PEERS.search(name) if p2p else None
        dtypes = entry.get("input_dtypes") or entry.get("output_dtypes") or (None,)
        builder.add(
            "collective",
            row=row,
            collective=name.partition(":")[2].split(" ")[0] or name,
            dtype=dtypes[0],
            in_nelems=_elements(entry.get("input_sizes")),
            out_nelems=_elements(entry.get("output_sizes")),
            group_size=len(members) if members else None,
            group_name=None if group is None else str(group),
            group_description=description or None,
            group_ranks=json.dumps(members) if members else None,
            rank=rank,
            source_rank=int(peers[1 if "->" in peers[0] else 2]) if peers else None,
            destination_rank=int(peers[2 if "->" in peers[0] else 1]) if peers else None,
            sequence=entry.get("p2p_seq_id" if p2p else "collective_seq_id"),
        )
    if unmeasured:
        message = remark_message("missing_duration", unmeasured)
        builder.remarks.append(Remark("missing_duration", unmeasured, None, message))
    return builder.build()


def _when(entry: dict[str, Any]) -> tuple[int, int | None]:
    """Start and duration in ns; the watchdog's times are when it looked, so a measured duration goes first."""
    created = int(entry["time_created_ns"])
    started, completed = entry.get("time_discovered_started_ns"), entry.get("time_discovered_completed_ns")
    ts = int(started) if started else created
    if entry.get("duration_ms") is not None:
        return ts, int(entry["duration_ms"] * 1e6)
    return ts, max(int(completed) - int(started), 0) if started and completed else None


def _elements(sizes: Any) -> int | None:
    """Elements of all tensors together; null where none is listed."""
    return sum(math.prod(size) for size in sizes) if sizes else None
