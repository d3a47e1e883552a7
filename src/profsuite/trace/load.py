"""``load``: from a path, a URL or standard input to a ``Trace``; ``find_ranks``: the traces in a folder."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pyarrow as pa

from profsuite.errors import ProfsuiteError, SelectionError, TraceError
from profsuite.trace import cache as trace_cache
from profsuite.trace import spill
from profsuite.trace.assemble import assemble
from profsuite.trace.embedded import read_embedded
from profsuite.trace.folders import rank_of, traces_in
from profsuite.trace.header import rank_in_name
from profsuite.trace.jax_log import one_run, rank_in_run
from profsuite.trace.readers import native
from profsuite.trace.readers.raw import Remark, remark_message
from profsuite.trace.remote import traces_at
from profsuite.trace.select import Range, cut, describe_time, select_steps, select_time, within
from profsuite.trace.source import Source, open_source
from profsuite.trace.store import is_run_folder, open_folder

if TYPE_CHECKING:
    from profsuite.trace.inputs import Format
    from profsuite.trace.model import Trace
    from profsuite.trace.readers.raw import RawTrace

Reader = Literal["auto", "c", "python"]
ProgressListener = Callable[[int, int | None], None]
"""Called with the bytes read and, where known, the bytes there are (both uncompressed)."""

BYTES_PER_SLICE = 450
"""Peak memory while tables are built, per slice; measured on generated and public traces (benchmarks/)."""
BYTES_PER_BYTE = 0.6
"""Peak memory per byte of JSON."""
BASE_BYTES = 220_000_000
"""What Python and its packages take, and what streaming leaves taken."""


@dataclass(frozen=True, slots=True)
class RankFile:
    """One trace of a job: its rank where the name or the file says it, and its path."""

    rank: int | None
    path: str


def load(
    path: str | os.PathLike[str],
    *,
    steps: Range | None = None,
    time: Range | None = None,
    max_memory: int | None = None,
    max_unpacked: int | None = None,
    cache: bool = True,
    reader: Reader = "auto",
    threads: int | None = None,
    progress: ProgressListener | None = None,
) -> Trace:
    """Read one trace: a file (plain or gzip), ``-`` for standard input, an fsspec URL, a run folder.

    ``steps=(3, 6)`` keeps steps 3 to 5, ``time=(a, b)`` what overlaps that time (ns from the first
    slice).  ``max_memory`` (bytes) streams the file through the disk where its tables would take more,
    and without a selection loads as many whole steps as fit, from the first; ``trace.info.selection``
    says which.  ``max_unpacked`` (bytes) caps what a gzip stream may grow to.  ``cache`` reads and keeps
    whole traces of more than 32 MB in the user's cache.  ``reader`` is "c", "python" or "auto": C where
    it is built.  ``threads`` defaults to the cores, at most 8.

    ``TraceError`` if nothing can be read, ``SelectionError`` if the selection is empty.  What a broken
    file lost is in ``trace.health``.
    """
    name = os.fspath(path)
    use_c = _use_c(reader)
    folder = Path(name)
    if name != "-" and "://" not in name and folder.is_dir():
        if is_run_folder(folder):
            return selected(open_folder(folder), steps, time)
        files = find_ranks(name)
        if len(files) > 1:
            raise TraceError(f"{name}: holds {len(files)} traces; load one of them (profsuite.find_ranks lists them)")
        return load(
            files[0].path, steps=steps, time=time, max_memory=max_memory, max_unpacked=max_unpacked, cache=cache,
            reader=reader, threads=threads, progress=progress,
        )  # fmt: skip
    with open_source(name, max_unpacked) as source:
        if cache and (known := trace_cache.find(source.key)) is not None:
            return selected(known, steps, time)
        form = source.format
        if form == "json" and max_memory is not None and _needs(source) > max_memory:
            return _load_part(source, use_c, steps, time, max_memory, progress)
        if form == "perfetto":
            return selected(_load_embedded(source), steps, time)
        if form == "json":
            raw, reader_name = _read(source, use_c, threads, progress), "c" if use_c else "python"
        else:
            raw, reader_name = _read_other(source, form, progress), form
        trace = assemble(raw, name, reader_name, rank=rank_in_run(folder) if "://" not in name else None)
        if cache and not source.fault:
            trace_cache.keep(trace, source.key)
    return selected(trace, steps, time)


def find_ranks(path: str | os.PathLike[str], ranks: list[int] | None = None) -> list[RankFile]:
    """The traces of a job, by rank: those in a folder and the folders in it; a file is itself.

    ``ranks`` keeps only these.  A rank is taken from the file's name, else (not of a URL) from its first bytes; a
    folder that was itself written by profsuite is one trace.  A file that is named as a trace is one even
    where it is empty or damaged: ``load`` says what is wrong with it.  ``TraceError`` if there is none,
    ``SelectionError`` if a wanted rank is not there.
    """
    name = os.fspath(path)
    folder = Path(name)
    if "://" in name and (urls := traces_at(name)) is not None:
        files = [RankFile(rank_in_name(url), url) for url in urls]
        files.sort(key=lambda file: (file.rank is None, file.rank or 0, file.path))
    elif name == "-" or "://" in name or not folder.is_dir() or is_run_folder(folder):
        files = [RankFile(rank_in_name(name), name)]
        if not ranks:
            return files
    else:
        entries = traces_in(folder)
        one_run(name, entries)
        files = [RankFile(rank_of(entry), str(entry)) for entry in entries]
        if not files:
            raise TraceError(
                f"{name}: holds no trace (looked for .json and .json.gz files with trace events, and .xplane.pb)"
            )
        files.sort(key=lambda file: (file.rank is None, file.rank or 0, file.path))
    if ranks:
        known = {file.rank for file in files}
        if missing := [rank for rank in ranks if rank not in known]:
            there = ", ".join(str(rank) for rank in sorted(rank for rank in known if rank is not None)) or "none known"
            raise SelectionError(f"{name}: has no rank {missing[0]} (ranks: {there})")
        files = [file for file in files if file.rank in ranks]
    return files


def separate_runs(files: Sequence[RankFile]) -> list[str]:
    """The folders of files that are of several recordings: where two folders have the same rank, each is one.

    Empty where no rank is in two folders; the ranks of one job may lie in a folder for each node.
    """
    folders: dict[int, set[str]] = {}
    for file in files:
        if file.rank is not None:
            folders.setdefault(file.rank, set()).add(os.path.dirname(file.path.rstrip("/")) or ".")  # noqa: PTH120 - or an address
    if all(len(found) == 1 for found in folders.values()):
        return []
    return sorted(set().union(*folders.values()))


def _use_c(reader: Reader) -> bool:
    if reader == "c" and native.MISSING is not None:
        raise ProfsuiteError(f"the C scanner is not built ({native.MISSING}); profsuite doctor says what is missing")
    return reader != "python" and native.MISSING is None


def _read(source: Source, use_c: bool, threads: int | None, progress: ProgressListener | None) -> RawTrace:
    """The raw trace of a source, with a remark where its compressed data failed."""
    total = None if source.gzipped else source.size

    def done(num_bytes: int) -> None:
        if progress is not None:
            progress(num_bytes, total)

    try:
        if source.path is not None:
            raw = _file_reader(use_c)(source.path, threads or min(8, os.cpu_count() or 1), done)
        else:
            raw = _reader(use_c)(_watched(source, done))
    except TraceError as error:
        raise TraceError(_named(source, error)) from None
    except OSError as error:
        raise TraceError(f"{source.name}: cannot be read: {error.strerror or error}") from error
    rows = sum(len(column) for columns in raw.groups.values() for column in list(columns.values())[:1])
    _refuse_other_json(source, rows, {remark.kind for remark in raw.remarks})
    _note_fault(source, raw)
    if not raw.num_events:
        raw.remarks.append(Remark("empty", 1, None, remark_message("empty", 1)))
    return raw


def _read_other(source: Source, form: Format, progress: ProgressListener | None) -> RawTrace:
    """The raw trace of a source that is no JSON, with a remark where it breaks off."""
    from profsuite.trace.readers import collapsed, xspace

    chunks = _watched(
        source, lambda num_bytes: progress and progress(num_bytes, None if source.gzipped else source.size)
    )
    try:
        raw = xspace.read_xspace(chunks) if form == "xspace" else collapsed.read_collapsed(chunks)
    except TraceError as error:
        raise TraceError(_named(source, error)) from None
    _note_fault(source, raw)
    return raw


def _load_embedded(source: Source) -> Trace:
    """The trace of a Perfetto file that profsuite wrote."""
    try:
        raw = read_embedded(source.chunks())
    except TraceError as error:
        raise TraceError(_named(source, error)) from None
    raw.num_bytes = source.size or source.consumed
    return assemble(raw, source.name, "perfetto")


def _refuse_other_json(source: Source, num_rows: int, remarks: set[str]) -> None:
    """``TraceError`` where there were elements, and none became a row: a list of something else than events."""
    if not num_rows and "dropped" in remarks and "unsupported" not in remarks:
        raise TraceError(f"{source.name}: is no trace: none of its elements is a trace event")


def _named(source: Source, error: TraceError) -> str:
    text = str(error)
    if source.fault:
        text += f"; {source.fault}"
    return text if text.startswith(source.name) else f"{source.name}: {text}"


def _note_fault(source: Source, raw: RawTrace) -> None:
    if not source.fault:
        return
    for remark in raw.remarks:
        if remark.kind == "truncated":
            remark.message = f"{remark.message} {source.fault}"
            return
    raw.remarks.append(Remark("truncated", 1, raw.num_bytes, source.fault))


def _reader(use_c: bool) -> Callable[[Any], RawTrace]:
    if use_c:
        return native.read_chunks
    from profsuite.trace.readers import fallback

    return fallback.read_chunks


def _file_reader(use_c: bool) -> Callable[[str, int, Callable[[int], None]], RawTrace]:
    if use_c:
        return native.read_file
    from profsuite.trace.readers import stretches

    return stretches.read_file


def _watched(source: Source, done: Callable[[int], None]) -> Any:
    num_bytes = 0
    for chunk in source.chunks():
        yield chunk
        num_bytes += len(chunk)
        done(num_bytes)


def selected(trace: Trace, steps: Range | None = None, time: Range | None = None) -> Trace:
    """The part of a loaded trace that ``steps`` and ``time`` say, as of ``load``."""
    if steps is not None:
        trace = select_steps(trace, steps)
    if time is not None:
        trace = select_time(trace, time)
    return trace


# ---------------------------------------------------------------- more than fits
def _needs(source: Source) -> float:
    """Peak bytes that loading the whole source takes; infinite where its size is not known."""
    if source.size is None or source.gzipped:
        return float("inf")
    return BASE_BYTES + source.size * BYTES_PER_BYTE


def _load_part(
    source: Source,
    use_c: bool,
    steps: Range | None,
    time: Range | None,
    max_memory: int,
    progress: ProgressListener | None,
) -> Trace:
    """Through the disk: stream everything there, then load what is selected, or what fits."""
    with _streamed(source, use_c, progress) as spilled:
        part = _fitting(spilled, steps, time, max_memory)
        raw = spilled.load(part.start, part.stop)
        _note_fault(source, raw)
        trace = assemble(raw, source.name, "c" if use_c else "python")
        if part.steps is not None:
            return select_steps(trace, part.steps, part.note)
        return trace if part.note is None else cut(trace, part.start, part.stop, part.note)


@contextmanager
def stream(
    path: str | os.PathLike[str],
    *,
    max_unpacked: int | None = None,
    reader: Reader = "auto",
    progress: ProgressListener | None = None,
) -> Iterator[spill.Spill]:
    """The raw columns of a file on the disk, in batches, whatever its size; arguments and errors as of ``load``.

    Those of a large file are kept in the user's cache, else they are removed afterwards.
    """
    use_c = _use_c(reader)
    with open_source(os.fspath(path), max_unpacked) as source:
        if source.format != "json":
            raise TraceError(f"{source.name}: only JSON can be streamed; save it as a file, and give that file's name")
        if source.size is not None and source.size < trace_cache.MIN_BYTES:
            source.key = None
        with _streamed(source, use_c, progress) as spilled:
            yield spilled


@contextmanager
def _streamed(source: Source, use_c: bool, progress: ProgressListener | None) -> Iterator[spill.Spill]:
    total = None if source.gzipped else source.size
    folder, temporary = _spill_folder(source)
    try:
        spilled = _spilled(folder, source.name)
        if spilled is None:
            _spill(source, use_c, folder, lambda n: progress(n, total) if progress is not None else None)
            spilled = spill.Spill(folder, source.name)
        kinds = {remark["kind"] for remark in spilled.manifest["remarks"]}
        _refuse_other_json(source, sum(spilled.manifest["rows"].values()), kinds)
        yield spilled
    finally:
        if temporary:
            shutil.rmtree(folder, ignore_errors=True)


def _spill_folder(source: Source) -> tuple[Path, bool]:
    """Where to stream to, and whether it is only for this call."""
    if source.key is not None:
        folder = trace_cache.folder_for(source.key).with_suffix(".spill")
        try:
            folder.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            if os.access(folder.parent, os.W_OK):
                return folder, False
        except OSError:
            pass
    return Path(tempfile.mkdtemp(prefix="profsuite-")), True


def _spilled(folder: Path, name: str) -> spill.Spill | None:
    """What was streamed there before; None if nothing was, or it is damaged."""
    if not (folder / spill.MANIFEST).is_file():
        return None
    try:
        spilled = spill.Spill(folder, name)
        spilled.extent()
    except (OSError, ValueError, KeyError, TypeError, pa.ArrowException):
        return None
    trace_cache.touch(folder)
    return spilled


def _spill(source: Source, use_c: bool, folder: Path, done: Callable[[int], None]) -> None:
    """Stream the source to ``folder``, which appears only when complete."""
    from profsuite.trace.readers import fallback

    building = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    try:
        scanner = native.Scanner() if use_c else fallback.Scanner()
        spill.write(scanner, source.chunks(), building, done)
        # Another process may have streamed the same meanwhile, and read it now.
        if _spilled(folder, source.name) is None:
            shutil.rmtree(folder, ignore_errors=True)
            try:
                building.replace(folder)
            except OSError:
                if _spilled(folder, source.name) is None:
                    raise
        trace_cache.prune()
    except TraceError as error:
        raise TraceError(_named(source, error)) from None
    except OSError as error:
        raise TraceError(
            f"{folder}: cannot be written: {error.strerror or error}; free space there or set PROFSUITE_CACHE"
        ) from error
    finally:
        shutil.rmtree(building, ignore_errors=True)


@dataclass(frozen=True, slots=True)
class _Part:
    """A stretch of time to load (ns), its steps where it is made of steps, and what to call it."""

    start: int
    stop: int
    steps: Range | None = None
    note: str | None = None


def _fitting(spilled: spill.Spill, steps: Range | None, time: Range | None, max_memory: int) -> _Part:
    """What was selected; without a selection as much as fits, whole steps from the first if there are steps."""
    marks = spilled.steps()
    first, last = spilled.extent()
    if steps is not None:
        wanted = within(marks.number, steps)
        if not wanted.any():
            return _Part(first, first, steps)  # select_steps says what there is
        return _Part(int(marks.ts[wanted].min()), int((marks.ts + marks.dur)[wanted].max()), steps)
    if time is not None:
        stop = last + 1 if time[1] is None else first + time[1]
        return _Part(first + (time[0] or 0), stop, None, describe_time(time))
    room = int(max(0, max_memory - BASE_BYTES) / BYTES_PER_SLICE)
    if spilled.num_slices <= room:
        return _Part(first, last + 1)
    if len(marks.ts):
        ends = marks.ts + marks.dur
        before = spilled.counts(np.sort(np.append(ends, marks.ts[0])))
        fit = int(np.searchsorted(before[1:] - before[0], room, side="right"))
        if fit == 0:
            need = (int(before[1] - before[0]) * BYTES_PER_SLICE + BASE_BYTES) / 1e9
            raise SelectionError(
                f"{spilled.source}: one step needs about {need:,.2f} GB, more than --max-memory; raise it, or "
                "choose a --time"
            )
        low, high = int(marks.number[:fit].min()), int(marks.number[:fit].max())
        note = f"steps {low} to {high} of {len(marks.ts)} (what fits --max-memory; choose others with --steps)"
        return _Part(int(marks.ts[0]), int(ends[:fit].max()), (low, high + 1), note)
    bounds = np.linspace(first, last + 1, 1001).astype(np.int64)
    fit = int(np.searchsorted(spilled.counts(bounds), room, side="right")) - 1
    if fit <= 0:
        raise SelectionError(
            f"{spilled.source}: not even a thousandth of its time fits --max-memory; raise it, or choose a --time"
        )
    note = f"the first {fit / 10:g} % of the time (what fits --max-memory; choose another with --time)"
    return _Part(first, int(bounds[fit]), None, note)


assert sys.maxsize > 2**32, "profsuite needs a 64-bit Python"
