"""Many ranks at once: each is read and summarised by itself, here, in a pool of processes or on a Dask cluster."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures import as_completed as as_done
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field, replace
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Any

from profsuite.analyzers.analysis import Analysis
from profsuite.analyzers.job.report import JobReport, analyze_summaries
from profsuite.analyzers.job.summary import RankSummary, summarise
from profsuite.analyzers.report import Report, report_of
from profsuite.errors import MissingExtraError, ProfsuiteError, SelectionError, TraceError
from profsuite.trace import cache as trace_cache
from profsuite.trace.load import RankFile, find_ranks, load, separate_runs
from profsuite.trace.redaction.redactor import Redactor
from profsuite.trace.redaction.tables import redact_trace

if TYPE_CHECKING:
    from profsuite.trace.model import Trace
    from profsuite.trace.redaction.report import RedactionReport
    from profsuite.trace.redaction.settings import Redaction

CONNECT_SECONDS = 20
"""How long a scheduler may take to answer."""

Done = Callable[[int, int], None]
"""Called with the ranks that are done and all of them."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one file: its report and, where its rank is known, its summary; or why it cannot be read.

    ``health`` has the kind and count of each row of the trace's ``health`` table, ``redacted`` what was replaced.
    """

    file: RankFile
    report: Report | None = None
    summary: RankSummary | None = None
    error: str | None = None
    health: tuple[tuple[str, int], ...] = field(default=())
    redacted: RedactionReport | None = None


def examine(
    file: RankFile,
    *,
    top: int = 10,
    only: Collection[str] | None = None,
    peak: Mapping[str, float] | None = None,
    location: str | None = None,
    redaction: Redaction | None = None,
    **options: Any,
) -> Outcome:
    """Read one trace (at ``location``, if that is not the file's own path) and say what the job needs of it.

    ``top``, ``only`` and ``peak`` are those of ``analyze``.
    ``redaction`` is what to hide of the trace before anything is said of it.  ``options`` are those of ``load``.
    A file that is no trace becomes an outcome with an error; other errors are raised.
    Afterwards nothing of the trace is kept.
    """
    try:
        trace = load(location or file.path, **options)
        trace = replace(trace, info=replace(trace.info, source=file.path))
        if redaction is None:
            return _outcome(file, trace, only, top, peak)
        redactor = Redactor(redaction)
        outcome = _outcome(file, redact_trace(trace, redactor), only, top, peak)
        return replace(outcome, redacted=redactor.report)
    except TraceError as error:
        return Outcome(file, error=str(error).replace(location or file.path, file.path))


def _outcome(
    file: RankFile, trace: Trace, only: Collection[str] | None, top: int, peak: Mapping[str, float] | None = None
) -> Outcome:
    analysis = Analysis(trace, top, peak)
    summary = None if trace.info.rank is None else summarise(analysis, only)
    report = report_of(analysis, only) if summary is None else summary.report
    health = tuple((str(row["kind"]), int(row["count"])) for row in trace.health.to_pylist())
    return Outcome(file, report, summary, None, health)


def examine_all(
    files: Sequence[RankFile],
    *,
    jobs: int = 1,
    scheduler: str | None = None,
    done: Done | None = None,
    max_memory: int | None = None,
    threads: int | None = None,
    **options: Any,
) -> list[Outcome]:
    """``examine`` for each file, in the order of ``files``; the results do not depend on where it ran.

    ``jobs`` processes share ``max_memory`` (bytes) and the cores; each holds one trace at a time.  With ``scheduler``
    (``tcp://host:8786``) the workers of a Dask cluster do it, which must see the files under the same paths.
    ``threads`` read a file (default: the cores over ``jobs``; on a cluster 1).
    """
    notify = done or (lambda _done, _all: None)
    if scheduler is not None:
        return _on_cluster(files, scheduler, notify, max_memory=max_memory, threads=threads or 1, **options)
    jobs = max(1, min(jobs, len(files)))
    if jobs == 1:
        found = []
        for file in files:
            found.append(examine(file, max_memory=max_memory, threads=threads, **options))
            notify(len(found), len(files))
        return found
    share = None if max_memory is None else max_memory // jobs
    threads = threads or max(1, (os.cpu_count() or 1) // jobs)
    work = partial(_examine_apart, max_memory=share, threads=threads, **options)
    # Not forked: this process may have threads that hold locks.
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn"), initializer=_leave_interrupts) as pool:
        try:
            futures = [pool.submit(work, file) for file in files]
            for count, future in enumerate(as_done(futures), 1):
                future.result()
                notify(count, len(files))
            return [future.result() for future in futures]
        except BrokenProcessPool:
            raise ProfsuiteError(
                f"one of {jobs} processes that read ranks died, perhaps for want of memory: fewer --jobs, or "
                "--max-memory"
            ) from None
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _leave_interrupts() -> None:
    """Leave Ctrl-C to the process that has the pool: it tells the user, and the others end with it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _examine_apart(file: RankFile, **options: Any) -> Outcome:
    """``examine`` in a process that goes on to another rank: only when the cache is written is the trace gone."""
    outcome = examine(file, **options)
    trace_cache.settle()
    return outcome


def _on_cluster(files: Sequence[RankFile], scheduler: str, done: Done, **options: Any) -> list[Outcome]:
    try:
        from distributed import Client, KilledWorker, as_completed
    except ImportError as error:
        raise MissingExtraError("--scheduler needs Dask: pip install 'profsuite[distributed]'") from error
    try:
        connect: Any = Client
        client = connect(scheduler, timeout=CONNECT_SECONDS, set_as_default=False)
    except (OSError, ValueError) as error:
        raise ProfsuiteError(f"{scheduler}: no scheduler answers there ({type(error).__name__})") from error
    with client:
        # A worker's own folder is another one: whole paths.
        work = partial(_examine_apart, **options)
        futures = [client.submit(work, file, location=_whole(file.path), pure=False) for file in files]
        finished: Any = as_completed
        for count, _ in enumerate(finished(futures, loop=client.loop), 1):
            done(count, len(files))
        try:
            return [future.result() for future in futures]
        except KilledWorker as error:
            raise ProfsuiteError(
                f"{scheduler}: workers died while they read a rank, perhaps for want of memory"
            ) from error


def _whole(path: str) -> str:
    return path if "://" in path else str(Path(path).resolve())


def analyze_job(
    path: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    *,
    ranks: list[int] | None = None,
    jobs: int = 1,
    scheduler: str | None = None,
    fabric: str | None = None,
    **options: Any,
) -> JobReport:
    """What the ranks of one job say together: a folder with one trace a rank, or the traces' paths.

    ``ranks`` keeps only these; ``jobs`` processes read them (more than one: from a script whose work is under
    ``if __name__ == "__main__"``, which they import); ``scheduler`` is the address of a Dask cluster instead;
    ``fabric`` names what connects the ranks (of ``fabrics.FABRICS``); ``options`` are those of
    ``load``.  ``TraceError`` where a rank cannot be read, ``SelectionError`` where there are not two ranks, each once.
    """
    paths = [path] if isinstance(path, str | os.PathLike) else list(path)
    files = [file for each in paths for file in find_ranks(each, ranks)]
    outcomes = examine_all(files, jobs=jobs, scheduler=scheduler, only=(), **options)
    for outcome in outcomes:
        if outcome.error is not None:
            raise TraceError(outcome.error)
    summaries = summaries_of(outcomes)
    if summaries is None:
        raise SelectionError(f"{', '.join(map(str, paths[:3]))}: not the ranks of a job (two or more, each once)")
    return analyze_summaries(summaries, fabric)


def summaries_of(outcomes: Sequence[Outcome]) -> list[RankSummary] | None:
    """The summaries of the files that could be read, null where they are not two or more ranks of one job."""
    if separate_runs([outcome.file for outcome in outcomes]):
        return None
    read = [outcome for outcome in outcomes if outcome.error is None]
    summaries = [outcome.summary for outcome in read if outcome.summary is not None]
    ranks = {summary.rank for summary in summaries}
    return summaries if len(ranks) == len(read) > 1 else None
