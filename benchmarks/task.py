"""What one measured process does with profsuite; prints what it found as one line of JSON.

``python benchmarks/task.py TASK PATH``; run.py measures it from outside.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

Facts = dict[str, Any]


def load(args: argparse.Namespace) -> Facts:
    """Every table, relations included; nothing cached."""
    from profsuite.trace.load import load

    start = time.perf_counter()
    trace = load(args.path, cache=False, threads=args.threads, reader=args.reader)
    seconds = time.perf_counter() - start
    return {"seconds": seconds, "num_events": trace.info.num_events, "num_bytes": trace.info.num_bytes}


def keep(args: argparse.Namespace) -> Facts:
    """Load and leave the trace in the cache, however small it is."""
    from profsuite.trace import cache
    from profsuite.trace.load import load

    cache.MIN_BYTES = 0
    return {"num_events": load(args.path).info.num_events}


def reopen(args: argparse.Namespace) -> Facts:
    """Every table from the cache; fails where the file was read again."""
    from profsuite.trace.load import load

    def progress(*_: int | None) -> None:
        raise AssertionError("the trace was not in the cache")

    start = time.perf_counter()
    trace = load(args.path, progress=progress)
    return {"seconds": time.perf_counter() - start, "num_events": trace.info.num_events}


def stream(args: argparse.Namespace) -> Facts:
    """The raw columns of the whole file, to the disk as they are read."""
    from profsuite.trace import spill
    from profsuite.trace.readers import native
    from profsuite.trace.source import open_source

    with open_source(args.path) as source, tempfile.TemporaryDirectory(dir=args.folder) as folder:
        scanner = native.Scanner()
        start = time.perf_counter()
        spill.write(scanner, source.chunks(), Path(folder), lambda _: None)
        seconds = time.perf_counter() - start
        kept = sum(file.stat().st_size for file in Path(folder).iterdir())
    return {"seconds": seconds, "num_events": scanner.num_events, "num_bytes": scanner.num_bytes, "kept_bytes": kept}


def part(args: argparse.Namespace) -> Facts:
    """``load(max_memory=...)``: stream the file to the cache, load the steps that fit."""
    from profsuite.trace.load import load

    start = time.perf_counter()
    trace = load(args.path, max_memory=args.max_memory)
    seconds = time.perf_counter() - start
    return {"seconds": seconds, "num_events": trace.info.num_events, "num_slices": trace.num_rows("slice")}


def export(args: argparse.Namespace) -> Facts:
    """The file in another format, from reading it to the last byte written."""
    import profsuite.exporters.chrome
    import profsuite.exporters.export
    import profsuite.exporters.perfetto
    from profsuite.exporters.formats import format_called

    with tempfile.TemporaryDirectory(dir=args.folder) as folder:
        target = Path(folder) / f"out{format_called(args.to).suffix}"
        start = time.perf_counter()
        profsuite.exporters.export.export(args.path, target, args.to)
        seconds = time.perf_counter() - start
        kept = target.stat().st_size
    return {"seconds": seconds, "written_bytes": kept}


def stages(args: argparse.Namespace) -> Facts:
    """Each stage of a load and of an analysis, in seconds."""
    from profsuite.analyzers.analysis import Analysis
    from profsuite.analyzers.findings import findings
    from profsuite.analyzers.verdict import verdict
    from profsuite.trace import assemble
    from profsuite.trace.readers import native

    seconds: dict[str, float] = {}

    def timed(name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def run(*given: Any, **named: Any) -> Any:
            start = time.perf_counter()
            try:
                return call(*given, **named)
            finally:
                seconds[name] = time.perf_counter() - start

        return run

    assemble.nest = timed("nest", assemble.nest)
    raw = timed("scan", native.read_file)(args.path, args.threads, lambda _: None)
    trace = timed("assemble", assemble.assemble)(raw, args.path, "c")
    num_events = raw.num_events
    del raw
    seconds["assemble"] -= seconds["nest"]
    analysis = Analysis(trace)
    # in this order, so that a stage's time does not hold that of one it builds on
    for name in (
        "work",
        "timelines",
        "breakdown",
        "idle",
        "host",
        "steps",
        "ops",
        "kernels",
        "memory",
        "graph",
        "replays",
    ):
        timed(f"analyze: {name}", lambda name=name: getattr(analysis, name))()
    timed("analyze: findings", findings)(analysis)
    timed("analyze: verdict", verdict)(analysis)
    return {"stages": seconds, "num_events": num_events}


def snapshot(args: argparse.Namespace) -> Facts:
    """Read a memory snapshot, and all that is said of it."""
    from profsuite.analyzers.memory.snapshot import snapshot_memory
    from profsuite.trace.readers.snapshot import read_snapshot

    start = time.perf_counter()
    read = read_snapshot(args.path)
    middle = time.perf_counter()
    report = snapshot_memory(read)
    return {
        "seconds": middle - start,
        "analysis_seconds": time.perf_counter() - middle,
        "num_events": read.num_rows("entry"),
        "num_bytes": read.num_bytes,
        "peak_bytes": report.devices[0].peak.allocated_bytes,
    }


def ranks(args: argparse.Namespace) -> Facts:
    """All ranks of a folder and the report on the job, in ``--jobs`` processes or on as many workers of Dask.

    With one job the processes are one as well, so that memory and time compare: a pool of one, not this process.
    """
    import resource
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import get_context

    from profsuite.analyzers.job import run
    from profsuite.analyzers.job.report import analyze_summaries
    from profsuite.trace.load import find_ranks

    files = find_ranks(args.path)
    if args.dask:
        from distributed import LocalCluster

        options = {"n_workers": args.jobs, "threads_per_worker": 1, "dashboard_address": None, "scheduler_port": 0}
        with LocalCluster(**options) as cluster:
            start = time.perf_counter()
            outcomes = run.examine_all(files, scheduler=cluster.scheduler_address, cache=False)
            report = analyze_summaries(run.summaries_of(outcomes) or [])
            seconds = time.perf_counter() - start
    else:
        start = time.perf_counter()
        if args.jobs == 1:
            with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
                work = partial(run.examine, cache=False, threads=1)
                outcomes = [future.result() for future in [pool.submit(work, file) for file in files]]
        else:
            outcomes = run.examine_all(files, jobs=args.jobs, threads=1, cache=False)
        report = analyze_summaries(run.summaries_of(outcomes) or [])
        seconds = time.perf_counter() - start
    truth = json.loads((Path(args.path) / "truth.json").read_text("utf-8"))["ranks"]
    found = [rank.caused_ns for rank in report.ranks]
    if found != [rank["caused_wait_ns"] for rank in truth] or report.num_complete != report.num_collectives:
        raise AssertionError(f"{report.num_complete} of {report.num_collectives} collectives, ranks caused {found}")
    return {
        "seconds": seconds,
        "num_events": sum(outcome.report.trace.num_events for outcome in outcomes if outcome.report is not None),
        "worker_bytes": resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
        * (1 if sys.platform == "darwin" else 1024),
    }


def critical_path(args: argparse.Namespace) -> Facts:
    """The critical path of a whole trace, its load not included, all that it builds on included."""
    from profsuite.analyzers.analysis import Analysis
    from profsuite.analyzers.whatif.path import critical_path
    from profsuite.trace.load import load

    trace = load(args.path, cache=False, threads=args.threads)
    start = time.perf_counter()
    analysis = Analysis(trace)
    assert analysis.graph is not None
    path = critical_path(analysis, analysis.graph)
    seconds = time.perf_counter() - start
    assert path.replay_error_ns == 0
    return {"seconds": seconds, "num_events": trace.info.num_events}


def analyses(args: argparse.Namespace) -> Facts:
    """The five questions that the peer answers too, each timed, what it builds on included where it is first needed.

    The critical path is of the whole trace; once more, afterwards, of one step alone, of which nothing is known yet.
    """
    from profsuite.analyzers.analysis import Analysis
    from profsuite.analyzers.whatif.path import CriticalPath, critical_path
    from profsuite.trace.load import load
    from profsuite.trace.select import select_steps

    def path(analysis: Analysis) -> CriticalPath:
        assert analysis.graph is not None
        found = critical_path(analysis, analysis.graph)
        assert found.replay_error_ns == 0
        return found

    trace = load(args.path, cache=False, threads=args.threads)
    analysis = Analysis(trace)
    questions: dict[str, Callable[[], object]] = {
        "breakdown and overlap": lambda: analysis.breakdown,
        "kernels": lambda: analysis.kernels,
        "idle": lambda: analysis.idle,
        "critical path": lambda: path(analysis),
    }
    seconds = {}
    for name, answer in questions.items():
        start = time.perf_counter()
        assert answer()
        seconds[name] = time.perf_counter() - start
    start = time.perf_counter()
    number = int(trace.array("step", "number").min()) + 1  # the peer's is the second too
    assert path(Analysis(select_steps(trace, (number, number + 1)))).num_steps == 1
    one_step = time.perf_counter() - start
    return {"stages": seconds, "one_step": one_step, "num_events": trace.info.num_events}


def versions(_: argparse.Namespace) -> Facts:
    """Versions of what takes part; its imports also leave compiled modules for the measured runs."""
    import platform
    from importlib.metadata import version

    import profsuite.analyzers.report
    import profsuite.cli
    import profsuite.exporters.text
    import profsuite.trace.load
    import profsuite.trace.readers.fallback  # noqa: F401

    names = ("profsuite", "numpy", "pyarrow", "pandas", "msgspec")
    found = {"python": platform.python_version(), **{name: version(name) for name in names}}
    try:
        found["isal"] = version("isal")
    except ModuleNotFoundError:
        found["isal"] = None
    return found


TASKS = {
    task.__name__: task
    for task in (load, keep, reopen, stream, part, export, stages, critical_path, analyses, snapshot, ranks, versions)
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("task", choices=TASKS)
    parser.add_argument("path", nargs="?", default="")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--reader", choices=("c", "python"), default="c")
    parser.add_argument("--max-memory", type=int, default=400_000_000)
    parser.add_argument("--folder", help="where to stream to")
    parser.add_argument("--to", help="format to write")
    parser.add_argument("--jobs", type=int, default=1, help="processes that read ranks")
    parser.add_argument("--dask", action="store_true", help="as workers of a local Dask cluster")
    parser.add_argument("--without-isal", action="store_true", help="as if isal were not installed")
    args = parser.parse_args()
    if args.task in ("load", "part", "stages"):
        import pandas  # noqa: F401 - pyarrow imports it on first use; imports are not what is measured
    if args.without_isal:
        sys.modules["isal"] = None  # type: ignore[assignment]
    print(json.dumps(TASKS[args.task](args)))


if __name__ == "__main__":
    main()
