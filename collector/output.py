"""The run folder of one rank: where it goes, who owns it, and the thread that writes it.

``runs/exp1/rank_0/`` is rank 0 of a run.  A run never writes into another's folder: it takes ``runs/exp1``, or
``runs/exp1-2`` where that is taken.  All ranks of a job take the same one, by the job's name in ``run.json``.
"""

from __future__ import annotations

import json
import os
import queue
import shutil
import socket
import threading
import time
import uuid
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from profsuite.collector.config import ProfsuiteWarning
from profsuite.collector.recording import empty, merge

if TYPE_CHECKING:
    from profsuite.trace.model import Trace
    from profsuite.trace.readers.raw import RawTrace

RUN: Final = "run.json"
RECORDING: Final = "recording.json"
REWRITE_ROWS: Final = 2_000_000
"""Up to this size the whole folder is written again after each window; beyond, when it has grown by a quarter."""


def current_rank() -> int:
    """The rank by torch.distributed, else by RANK; 0 where neither says."""
    import torch.distributed as dist

    if dist.is_available() and dist.is_initialized():
        return int(dist.get_rank())
    text = os.environ.get("RANK", "")
    return int(text) if text.isdecimal() else 0


def job_name() -> str:
    """What all ranks of one job, and of no other, have in common; unique in a process that is alone."""
    parts = [os.environ.get(key, "") for key in ("TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT")]
    address = [os.environ.get(key, "") for key in ("MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE")]
    if int(os.environ.get("WORLD_SIZE", "1") or 1) > 1 and all(address):
        # The agent's process, or the launcher's: another launch on the same port is another job.
        return ":".join([*parts, *address, str(os.getppid()) if address[0] in ("localhost", "127.0.0.1") else ""])
    own = uuid.uuid4().hex
    return _agreed(own) or own


def _agreed(proposal: str) -> str | None:
    """The first proposal of any rank, by the store of the process group; None where no other rank is to be asked.

    For ranks that no launcher has told the world size, such as those of ``torch.multiprocessing.spawn``.
    """
    import torch.distributed as dist

    if not dist.is_available() or not dist.is_initialized() or dist.get_world_size() < 2:
        return None
    try:
        store: Any = dist.distributed_c10d._get_default_store()
        return str(store.compare_set("profsuite/job", "", proposal).decode())
    except Exception:  # the rank that keeps the store may be gone, a store need not compare, and it is private to torch
        return None


def claim(path: Path, rank: int, job: str) -> Path:
    """The folder for ``rank`` in the run at ``path``, or at the first of ``path-2``, ``path-3`` … that is free.

    It does not exist yet; that it is ours is marked in the run's folder.  ``OSError`` if that cannot be written.
    """
    number = 1
    while True:
        run = path if number == 1 else path.with_name(f"{path.name}-{number}")
        number += 1
        run.mkdir(parents=True, exist_ok=True)
        try:
            with (run / RUN).open("x", encoding="utf-8") as stream:
                json.dump({"job": job, "host": socket.gethostname(), "started": time.time()}, stream)
            if any(entry.name.startswith("rank_") for entry in run.iterdir()):
                continue  # a run of before, without a name
        except FileExistsError:
            if _job_of(run) != job:
                continue
        try:
            (run / f".rank_{rank}").touch(exist_ok=False)
        except FileExistsError:
            continue
        return run / f"rank_{rank}"


def _job_of(run: Path) -> str | None:
    """The name in ``run.json``; another rank may be about to write it."""
    for _ in range(50):
        try:
            text = (run / RUN).read_text("utf-8")
            if text:
                return str(json.loads(text)["job"])
        except (OSError, ValueError, KeyError, TypeError):
            pass
        time.sleep(0.02)
    return None


def replace(trace: Trace, folder: Path, facts: dict[str, Any], beside: Iterable[Path] = ()) -> None:
    """Write ``trace`` as the run folder ``folder``; what was there stays until the new one is complete.

    The files ``beside`` become part of it.
    """
    from profsuite.trace.store import save

    building = folder.with_name(f".{folder.name}.new")
    old = folder.with_name(f".{folder.name}.old")
    shutil.rmtree(building, ignore_errors=True)
    try:
        save(trace, building)
        (building / RECORDING).write_text(json.dumps(facts, indent=1), "utf-8")
        for file in beside:
            _link(file, building / file.name)
        shutil.rmtree(old, ignore_errors=True)
        if folder.exists():
            folder.replace(old)
        building.replace(folder)
    finally:
        shutil.rmtree(building, ignore_errors=True)
        shutil.rmtree(old, ignore_errors=True)


def _link(file: Path, new: Path) -> None:
    try:
        os.link(file, new)
    except OSError:  # a file system without links
        shutil.copy(file, new)


class Writer:
    """Makes columns of finished windows and writes the run folder, on a thread of its own.

    ``put`` takes what gives a ``RawTrace`` when called, or several that belong together.  Nothing here raises: what
    fails warns once, and recording goes on.
    """

    def __init__(self, path: Path, rank: int | None, facts: Callable[[], dict[str, Any]]) -> None:
        self.path = path
        self.rank = rank
        self.folder: Path | None = None
        self.failed: str | None = None
        self.cpu_ns = 0
        self.num_events = 0
        self._facts = facts
        self._raws: list[RawTrace] = []
        self._trace: Trace | None = None
        self._written_rows = -1
        self._queue: queue.SimpleQueue[tuple[Callable[[], RawTrace], ...] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._claiming = threading.Lock()

    def put(self, *parts: Callable[[], RawTrace]) -> None:
        """Hand over what is finished; it is written together."""
        self._queue.put(parts)
        if self._thread is None:
            thread = threading.Thread(target=self._work, name="profsuite-writer", daemon=True)
            try:
                thread.start()
            except RuntimeError:  # the interpreter is ending (Python 3.12), or the system has no more threads
                return
            self._thread = thread

    def finish(self, last: RawTrace | None = None) -> None:
        """Take what is queued and ``last``, write everything, end the thread."""
        thread, self._thread = self._thread, None
        self._queue.put(None)
        if thread is None:
            self._work()
        else:
            thread.join()
        if last is not None:
            self._raws.append(last)
        self._write()
        shutil.rmtree(self._beside(), ignore_errors=True)

    def json_path(self, number: int) -> Path:
        """Where Kineto's JSON of a window goes until it becomes part of the run folder; on the writer's thread."""
        return self.beside() / f"window_{number}.json"

    def beside(self) -> Path:
        """A folder whose files become part of the run folder; ``OSError`` if it cannot be made."""
        self._claim()
        self._beside().mkdir(exist_ok=True)
        return self._beside()

    def _claim(self) -> Path:
        with self._claiming:
            if self.rank is None:
                self.rank = current_rank()
            if self.folder is None:
                self.folder = claim(self.path, self.rank, job_name())
            return self.folder

    def _beside(self) -> Path:
        return self.path / ".none" if self.folder is None else self.folder.with_name(f".{self.folder.name}.files")

    def trace(self) -> Trace:
        """All that was recorded so far."""
        if self._trace is None:
            self._trace = self._assembled()
        return self._trace

    def _work(self) -> None:
        done = False
        while not done:
            items = [self._queue.get()]
            while not self._queue.empty():
                items.append(self._queue.get())
            for item in items:
                if item is None:
                    done = True
                    self._queue.put(None)  # for the other, where ``finish`` came while the thread was being started
                    continue
                for part in item:
                    self._take(part)
            items.clear()
            # The end writes everything once more, with what the side channels saw.
            if not done and self._due():
                self._write()

    def _take(self, part: Callable[[], RawTrace]) -> None:
        begin = time.thread_time_ns()
        try:
            raw = part()
            self._raws.append(raw)
            self.num_events += raw.num_events
        except Exception as error:
            self._fail(f"a window was lost: {type(error).__name__}: {error}")
        self.cpu_ns += time.thread_time_ns() - begin

    def _due(self) -> bool:
        rows = sum(len(raw.groups["slice"]["ts"]) for raw in self._raws)
        return rows <= REWRITE_ROWS or rows > 1.25 * self._written_rows

    def _write(self) -> None:
        begin = time.thread_time_ns()
        try:
            folder = self._claim()
            self._trace = self._assembled()
            replace(self._trace, folder, self._facts(), sorted(self._beside().glob("*")))
            self._written_rows = self._trace.num_rows("slice")
        except Exception as error:
            self._fail(f"{self.folder or self.path}: nothing more is written there: {error}")
        self.cpu_ns += time.thread_time_ns() - begin

    def _assembled(self) -> Trace:
        # Only when Kineto's result is gone: what this imports takes memory too.
        from profsuite.trace.assemble import assemble

        raw = merge(self._raws) if self._raws else empty()
        self._raws = [raw]
        keys = dict(raw.header)
        keys.setdefault("baseTimeNanoseconds", "0")
        facts = {"profsuite": json.dumps(self._facts())}
        shown = type(raw)(
            raw.groups, raw.pools, raw.tracks, list((keys | facts).items()), raw.num_events, raw.num_bytes, raw.remarks
        )
        rank = current_rank() if self.rank is None else self.rank
        return assemble(shown, str(self.folder or self.path), "collector", rank=rank)

    def _fail(self, why: str) -> None:
        if self.failed is None:
            warnings.warn(f"profsuite: {why}; training goes on", ProfsuiteWarning, stacklevel=2)
        self.failed = why
