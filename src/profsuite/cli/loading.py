"""From the paths of a command line to traces: folders of ranks, progress, and the warning on faulty files."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from profsuite.cli.app import complain
from profsuite.cli.progress import ProgressBar
from profsuite.errors import SelectionError

if TYPE_CHECKING:
    from profsuite.analyzers.job.run import Outcome
    from profsuite.trace.load import RankFile
    from profsuite.trace.model import Trace
    from profsuite.trace.spill import Spill

POOL_BYTES = 8_000_000
"""Bytes of traces (gzipped: a tenth of their JSON) below which starting processes takes longer than reading them."""

FAULTS = {
    "repaired": "{} broke JSON's rules and could be repaired",
    "dropped": "{} could not be read",
    "truncated": "the file breaks off",
    "empty": "the file holds no events",
    "negative_duration": "{} had a negative duration",
    "missing_duration": "{} had no duration",
    "unclosed": "{} began and did not end",
    "trailing_data": "data after the file's end was ignored",
    "unsupported": "{} of a phase that profsuite does not read",
}
"""Kinds of the ``health`` table that mean a fault in the file, as opposed to something it lacks, in words."""


def expand(paths: Sequence[str], ranks: list[int] | None) -> list[RankFile]:
    """The trace files behind ``paths``: a file is itself, a folder the ranks in it, ``-`` is stdin."""
    from profsuite.trace.load import find_ranks

    files: list[RankFile] = []
    for path in paths:
        files += find_ranks(path, ranks)
    return files


def one_job(path: str, ranks: list[int] | None) -> list[RankFile]:
    """The trace files behind ``path``, of one job; ``SelectionError`` where they are of several runs."""
    from profsuite.trace.load import separate_runs

    files = expand([path], ranks)
    if runs := separate_runs(files):
        raise SelectionError(f"{path}: holds {len(runs)} separate runs ({some(runs)}); name one of them")
    return files


def some(names: Sequence[str]) -> str:
    """The first of many names."""
    return ", ".join(names[:4]) + (", …" if len(names) > 4 else "")


def tell_separate_runs(files: Sequence[RankFile]) -> None:
    """A line on stderr where files are of several runs: that they are no job, and how to look at one, or at two."""
    from shlex import quote

    from profsuite.trace.load import separate_runs

    if runs := separate_runs(files):
        first, second = (quote(run) for run in runs[:2])
        complain(
            f"{len(runs)} separate runs ({some(runs)}), not the ranks of one job: profsuite analyze {first} takes one, "
            f"profsuite diff {first} {second} compares two"
        )


def only(path: str, ranks: list[int] | None) -> RankFile:
    """The one trace file behind ``path``; ``SelectionError`` where it is a folder of several."""
    files = one_job(path, ranks)
    if len(files) > 1:
        known = ", ".join(str(file.rank) for file in files[:8] if file.rank is not None)
        raise SelectionError(f"{path}: holds {len(files)} traces; name one of them, or its --rank ({known})")
    return files[0]


def load_one(file: RankFile, **options: Any) -> Trace:
    """Load a trace with a progress bar; warn of faults in one line on stderr.  A ``redactor`` redacts it."""
    from profsuite.trace.load import load

    no_cache, redactor = options.pop("no_cache", False), options.pop("redactor", None)
    with ProgressBar(os.path.basename(str(file.path)) or str(file.path)) as progress:  # noqa: PTH119
        trace = load(file.path, cache=not no_cache, progress=progress, **options)
    warn_of_faults(trace)
    if redactor is not None:
        from profsuite.trace.redaction.tables import redact_trace

        trace = redact_trace(trace, redactor)
    return trace


@contextmanager
def stream_one(file: RankFile, **options: Any) -> Iterator[Spill]:
    """The raw columns of a large trace, read with a progress bar; a ``redactor`` redacts them."""
    from profsuite.trace.load import stream

    redactor = options.pop("redactor", None)
    with ExitStack() as stack:
        with ProgressBar(os.path.basename(str(file.path)) or str(file.path)) as progress:  # noqa: PTH119
            spilled = stack.enter_context(stream(file.path, progress=progress, **options))
        remarks = spilled.manifest["remarks"]
        warn_of(spilled.source, ((remark["kind"], remark["count"]) for remark in remarks))
        if redactor is not None:
            from profsuite.trace.redaction.tables import redact_spill

            spilled = redact_spill(spilled, redactor)
        yield spilled


def examine_files(files: Sequence[RankFile], jobs: int | None, scheduler: str | None, **options: Any) -> list[Outcome]:
    """Read and summarise many ranks, with a progress bar over them; warn of faults in one line each on stderr."""
    from profsuite.analyzers.job.run import examine_all
    from profsuite.cli.redaction import across_processes

    no_cache, redactor = options.pop("no_cache", False), options.pop("redactor", None)
    if any(file.path == "-" for file in files):
        jobs, scheduler = 1, None  # only this process has it
    if jobs is None:
        jobs = os.cpu_count() or 1 if _total_bytes(files) >= POOL_BYTES else 1
    with ProgressBar(f"{len(files)} ranks", noun="ranks") as progress:
        outcomes = examine_all(
            files, jobs=jobs, scheduler=scheduler, done=progress, cache=not no_cache,
            redaction=across_processes(redactor), **options,
        )  # fmt: skip
    for outcome in outcomes:
        if redactor is not None and outcome.redacted is not None:
            redactor.report.merge(outcome.redacted)
        if outcome.error is not None:
            complain(outcome.error)
        warn_of(outcome.file.path, outcome.health)
    return outcomes


def _total_bytes(files: Sequence[RankFile]) -> float:
    """Bytes of all files; infinite where one is not a local file."""
    total = 0
    for file in files:
        try:
            total += os.path.getsize(file.path)  # noqa: PTH202
        except OSError:
            return float("inf")
    return total


def warn_of_faults(trace: Trace) -> None:
    """One line on stderr if the trace's file was faulty."""
    warn_of(trace.info.source, ((row["kind"], row["count"]) for row in trace.health.to_pylist()))


def warn_of(source: str, health: Iterable[tuple[str, int]]) -> None:
    """One line on stderr if the kinds and counts of a trace's ``health`` table have faults of the file."""
    faults = [
        FAULTS[kind].format("1 event" if count == 1 else f"{count:,} events")
        for kind, count in health
        if kind in FAULTS
    ]
    if faults:
        more = "" if source == "-" else f"; profsuite info {source} says more"
        complain(f"warning: {source}: {', '.join(faults)}{more}")
