"""What is measured, and what it has to reach: one function a case."""

from __future__ import annotations

import os
import statistics
import sys
import sysconfig
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import peer
from inputs import Input, Inputs
from measuring import Run, measure, repeat

TASK = Path(__file__).with_name("task.py")


@dataclass(frozen=True, slots=True)
class Need:
    """A bound; ``kind`` says on which side of it a number has to be."""

    kind: Literal["at least", "at most"]
    bound: float

    def met(self, value: float) -> bool:
        """Whether the number is on the right side."""
        return value >= self.bound if self.kind == "at least" else value <= self.bound


@dataclass(frozen=True, slots=True)
class Row:
    """One number: the median of ``runs`` (a ratio of medians has none), and what it has to reach, if anything."""

    what: str
    unit: str
    value: float
    runs: tuple[float, ...] = ()
    need: Need | None = None


@dataclass(frozen=True, slots=True)
class Sizes:
    """MB (10^6 bytes) of JSON that each case reads."""

    load: int = 1000
    large: int = 4000
    fallback: int = 200
    analyze: int = 650
    """2 million events."""
    snapshot: int = 1000
    ranks: int = 64
    """Ranks of a job, of ``rank`` MB each."""
    rank: int = 20


@dataclass(frozen=True, slots=True)
class Bench:
    """How to measure.  ``peer_python`` is None where the peer is left out; ``kept`` gathers every run that counts."""

    inputs: Inputs
    folder: Path
    sizes: Sizes
    runs: int
    peer_runs: int
    peer_python: Path | None
    quiet: bool
    kept: list[Run] = field(default_factory=list)

    def repeat(self, once: Callable[[], Run], times: int | None = None) -> list[Run]:
        """``runs`` runs."""
        found = repeat(times or self.runs, once, self.quiet)
        self.kept.extend(found)
        return found

    def task(self, name: str, path: Path | str, *options: str, num_cores: int = 2, cache: Path | None = None) -> Run:
        """One run of task.py."""
        env = {"PROFSUITE_CACHE": str(cache)} if cache else {}
        return measure([sys.executable, str(TASK), name, str(path), *options], num_cores=num_cores, env=env)

    def tasks(
        self, name: str, source: Input, *options: str, num_cores: int = 2, cache: Path | None = None
    ) -> list[Run]:
        """``runs`` runs of task.py, each of which must have met every event of the file."""
        found = self.repeat(lambda: self.task(name, source.path, *options, num_cores=num_cores, cache=cache))
        for run in found:
            if run.said["num_events"] != source.num_events:
                raise AssertionError(f"{name}: {run.said['num_events']} events, there are {source.num_events}")
        return found

    def peer(self, name: str, source: Input) -> list[Run]:
        """``peer_runs`` runs of the peer on the same cores; none where it is left out."""
        if self.peer_python is None:
            return []
        command = [str(self.peer_python), str(peer.TASK), name, str(source.path)]
        return self.repeat(lambda: measure(command, num_cores=2), self.peer_runs)

    @contextmanager
    def temporary(self) -> Iterator[Path]:
        """An empty folder for a cache."""
        with tempfile.TemporaryDirectory(dir=self.folder) as folder:
            yield Path(folder)


def row(what: str, unit: str, runs: Sequence[float], need: Need | None = None) -> Row:
    """The median of ``runs``."""
    return Row(what, unit, statistics.median(runs), tuple(runs), need)


def seconds(runs: list[Run]) -> list[float]:
    """What the tasks themselves took, without the start of Python and without imports."""
    return [run.said["seconds"] for run in runs]


def walls(runs: list[Run]) -> list[float]:
    """What the whole processes took."""
    return [run.wall_s for run in runs]


def peaks(runs: list[Run]) -> list[float]:
    """Peak resident memory of the whole processes, MB."""
    return [run.peak_bytes / 1e6 for run in runs]


def speeds(runs: list[Run], source: Input) -> list[float]:
    """GB of JSON a second."""
    return [source.num_bytes / 1e9 / run.said["seconds"] for run in runs]


def ratio(what: str, above: Sequence[float], below: Sequence[float], need: Need | None = None) -> Row:
    """The ratio of two medians."""
    return Row(what, "x", statistics.median(above) / statistics.median(below), (), need)


def load(bench: Bench) -> list[Row]:
    """Load to complete tables, relations included, two threads, no cache; the peer on the same file."""
    source = bench.inputs.plain(bench.sizes.load)
    source.warm()
    ours = bench.tasks("load", source, "--threads", "2")
    rows = [
        row("profsuite, 2 threads", "s", seconds(ours)),
        row("profsuite, 2 threads", "GB/s", speeds(ours, source), Need("at least", 0.6)),
        row("profsuite, peak memory", "MB", peaks(ours)),
    ]
    if theirs := bench.peer("load", source):
        short = [run.said["seconds"] - run.said["to_steps"] for run in theirs]
        rows += [
            row("traceinsight", "s", seconds(theirs)),
            row("traceinsight, without its search for steps", "s", short),
            row("traceinsight, peak memory", "MB", peaks(theirs)),
            ratio("times faster", seconds(theirs), seconds(ours), Need("at least", 30)),
            ratio("times faster, without that search", short, seconds(ours), Need("at least", 30)),
            ratio("of its peak memory", peaks(ours), peaks(theirs), Need("at most", 0.2)),
        ]
    return rows


def single(bench: Bench) -> list[Row]:
    """The same load with one thread on one core."""
    source = bench.inputs.plain(bench.sizes.load)
    source.warm()
    runs = bench.tasks("load", source, "--threads", "1", num_cores=1)
    return [
        row("one thread", "s", seconds(runs)),
        row("one thread", "GB/s", speeds(runs, source)),
        row("peak memory", "MB", peaks(runs)),
    ]


def fallback(bench: Bench) -> list[Row]:
    """The reader without the C extension on both cores; complete tables.  The memory is the larger process's."""
    source = bench.inputs.plain(bench.sizes.fallback)
    source.warm()
    runs = bench.tasks("load", source, "--reader", "python", "--threads", "2")
    alone = bench.tasks("load", source, "--reader", "python", "--threads", "1")
    return [
        row("reader in Python, 2 processes", "s", seconds(runs)),
        row("reader in Python, 2 processes", "GB/s", speeds(runs, source), Need("at least", 0.12)),
        row("peak memory", "MB", peaks(runs)),
        row("reader in Python, 1 process", "GB/s", speeds(alone, source)),
        row("1 process, peak memory", "MB", peaks(alone)),
    ]


def stream(bench: Bench) -> list[Row]:
    """Stream to the disk in bounded memory, alone and as a part of ``load(max_memory=400 MB)``."""
    rows = []
    for size_mb in dict.fromkeys((bench.sizes.load, bench.sizes.large)):
        # what is small fits max_memory and would not be streamed, unless its size is unknown
        source = bench.inputs.plain(size_mb) if size_mb >= 1000 else bench.inputs.gzipped(size_mb)
        source.warm()
        name = f"{size_mb / 1000:g} GB"
        runs = bench.tasks("stream", source, "--folder", str(bench.folder))

        def part(source: Input = source) -> Run:
            with bench.temporary() as cache:
                return bench.task("part", source.path, "--max-memory", "400000000", cache=cache)

        parts = bench.repeat(part)
        rows += [
            row(f"{name}, streaming", "s", seconds(runs)),
            row(f"{name}, streaming", "GB/s", speeds(runs, source)),
            row(f"{name}, streaming, peak memory", "MB", peaks(runs), Need("at most", 200)),
            row(f"{name}, on disk", "MB", [run.said["kept_bytes"] / 1e6 for run in runs]),
            row(f"{name}, max_memory=400 MB", "s", seconds(parts)),
            row(f"{name}, max_memory=400 MB, peak memory", "MB", peaks(parts), Need("at most", 400)),
        ]
    return rows


def export(bench: Bench) -> list[Row]:
    """Read the file and write it in another format, in bounded memory, nothing cached."""
    source = bench.inputs.plain(bench.sizes.load)
    source.warm()
    rows = []
    for to, lowest in (("chrome", 200), ("perfetto", 100)):

        def once(to: str = to) -> Run:
            with bench.temporary() as cache:
                return bench.task("export", source.path, "--to", to, "--folder", str(bench.folder), cache=cache)

        runs = bench.repeat(once)
        rows += [
            row(f"to {to}", "s", seconds(runs)),
            row(f"to {to}", "MB/s", [1000 * speed for speed in speeds(runs, source)], Need("at least", lowest)),
            row(f"to {to}, peak memory", "MB", peaks(runs), Need("at most", 300)),
            row(f"to {to}, written", "MB", [run.said["written_bytes"] / 1e6 for run in runs]),
        ]
    return rows


def reopen(bench: Bench) -> list[Row]:
    """Every table again from the cache."""
    source = bench.inputs.plain(bench.sizes.load)
    with bench.temporary() as cache:
        bench.task("keep", source.path, cache=cache)
        kept = sum(file.stat().st_size for file in cache.rglob("*") if file.is_file())
        runs = bench.tasks("reopen", source, cache=cache)
    return [
        row("from the cache", "s", seconds(runs), Need("at most", 0.3)),
        row("whole process, imports included", "s", walls(runs)),
        row("peak memory", "MB", peaks(runs)),
        row("on disk", "MB", [kept / 1e6]),
    ]


def analyze(bench: Bench) -> list[Row]:
    """The whole command, Python's start included; the peer's load and four analyses, without its imports."""
    source = bench.inputs.plain(bench.sizes.analyze)
    source.warm()
    program = Path(sysconfig.get_path("scripts")) / ("profsuite.exe" if os.name == "nt" else "profsuite")
    command = [str(program), "analyze", "--no-cache", str(source.path)]
    ours = bench.repeat(lambda: measure(command, num_cores=2, parse=False))
    rows = [
        Row("events", "M", source.num_events / 1e6),
        row("profsuite analyze", "s", walls(ours)),
        row("profsuite analyze, peak memory", "MB", peaks(ours)),
    ]
    if theirs := bench.peer("analyze", source):
        short = [run.said["seconds"] - run.said["to_steps"] for run in theirs]
        rows += [
            row("traceinsight", "s", seconds(theirs)),
            row("traceinsight, its load alone", "s", [run.said["stages"]["load"] for run in theirs]),
            row("traceinsight, without its search for steps", "s", short),
            row("traceinsight, peak memory", "MB", peaks(theirs)),
            ratio("times faster", seconds(theirs), walls(ours), Need("at least", 15)),
            ratio("times faster, without that search", short, walls(ours), Need("at least", 15)),
        ]
    return rows


def critical_path(bench: Bench) -> list[Row]:
    """The critical path of a whole trace, after loading; the peer's is of one step of it.

    So the ratio is of unequal work and has nothing to reach; ``analyses`` has that of one step.
    """
    source = bench.inputs.plain(bench.sizes.analyze)
    source.warm()
    ours = bench.tasks("critical_path", source)
    rows = [row("profsuite, the whole trace", "s", seconds(ours), Need("at most", 5))]
    if theirs := bench.peer("critical_path", source):
        alone = [run.said["stages"]["critical_path"] for run in theirs]
        rows += [
            row("traceinsight, one step", "s", alone),
            ratio("times faster, though of all steps", alone, seconds(ours)),
        ]
    return rows


PAIRS = {
    "breakdown and overlap": ("get_temporal_breakdown", "get_comm_comp_overlap"),
    "kernels": ("get_gpu_kernel_breakdown",),
    "idle": ("get_idle_time_breakdown",),
    "critical path": ("critical_path",),
}
"""Questions, and the peer's analyses that answer them."""


def analyses(bench: Bench) -> list[Row]:
    """Five questions of one loaded trace, all in one process; the peer's path is of one step, ours of all.

    Our device work and host timelines are built where a question first needs them; memory is of the whole process.
    """
    source = bench.inputs.plain(bench.sizes.analyze)
    source.warm()
    ours = bench.tasks("analyses", source)
    found = {name: [run.said["stages"][name] for run in ours] for name in PAIRS}
    total = [sum(run.said["stages"].values()) for run in ours]
    one_step = [run.said["one_step"] for run in ours]
    rows = [row(f"profsuite, {name}", "s", took) for name, took in found.items()]
    rows += [
        row("profsuite, the path of one step", "s", one_step),
        row("profsuite, all", "s", total),
        row("profsuite, peak memory", "MB", peaks(ours)),
    ]
    if theirs := bench.peer("analyses", source):
        answers = {name: [sum(run.said["stages"][one] for one in PAIRS[name]) for run in theirs] for name in PAIRS}
        every = [sum(took) for took in zip(*answers.values(), strict=True)]
        rows += [row(f"traceinsight, {name}", "s", took) for name, took in answers.items()]
        rows += [row("traceinsight, all", "s", every), row("traceinsight, peak memory", "MB", peaks(theirs))]
        rows += [ratio(f"times faster, {name}", answers[name], found[name]) for name in PAIRS]
        rows += [
            ratio("times faster, the path of one step", answers["critical path"], one_step),
            ratio("times faster, all", every, total, Need("at least", 15)),
            ratio("of its peak memory", peaks(ours), peaks(theirs)),
        ]
    return rows


def gzipped(bench: Bench) -> list[Row]:
    """Load the file as gzip, with isal and with the standard library's zlib."""
    source = bench.inputs.gzipped(bench.sizes.load)
    source.warm()
    rows = []
    for name, options in (("with isal", ()), ("without isal", ("--without-isal",))):
        runs = bench.tasks("load", source, *options)
        rows += [
            row(name, "s", seconds(runs)),
            row(name, "GB/s", speeds(runs, source)),
            row(f"{name}, peak memory", "MB", peaks(runs)),
        ]
    return rows


def stages(bench: Bench) -> list[Row]:
    """Each stage of a load with two threads and of an analysis."""
    source = bench.inputs.plain(bench.sizes.load)
    source.warm()
    runs = bench.tasks("stages", source, "--threads", "2")
    return [row(name, "s", [run.said["stages"][name] for run in runs]) for name in runs[0].said["stages"]]


def snapshot(bench: Bench) -> list[Row]:
    """Read a memory snapshot of 1 GB on one core, and the report on it; memory against the size of the file."""
    source = bench.inputs.snapshot(bench.sizes.snapshot)
    source.warm()
    runs = bench.tasks("snapshot", source, num_cores=1)
    base = peaks(bench.tasks("snapshot", bench.inputs.snapshot(1), num_cores=1))
    return [
        Row("entries", "M", source.num_events / 1e6),
        row("read", "s", seconds(runs)),
        row("read", "GB/s", speeds(runs, source)),
        row("report", "s", [run.said["analysis_seconds"] for run in runs]),
        row("peak memory", "MB", peaks(runs)),
        row(
            "above that of a small one, of the file's size",
            "x",
            [max(0.0, peak - statistics.median(base)) * 1e6 / source.num_bytes for peak in peaks(runs)],
            Need("at most", 4),
        ),
    ]


def ranks(bench: Bench) -> list[Row]:
    """A whole job: every rank read, analysed and held against the others, by one process and by two, and on Dask.

    A worker's memory must not grow with the number of ranks it has read.
    """
    source = bench.inputs.ranks(bench.sizes.ranks, bench.sizes.rank)
    few = bench.inputs.ranks(max(4, bench.sizes.ranks // 8), bench.sizes.rank)
    source.warm()
    few.warm()
    rows = [Row(f"events of {bench.sizes.ranks} ranks", "M", source.num_events / 1e6)]
    for name, options in (("pool", ()), ("Dask", ("--dask",))):
        one, two = (bench.tasks("ranks", source, "--jobs", n, *options) for n in ("1", "2"))
        less = bench.tasks("ranks", few, "--jobs", "2", *options)
        rows += [
            row(f"{name}, one process", "s", seconds(one)),
            row(f"{name}, two processes", "s", seconds(two)),
            ratio(f"{name}, times faster", seconds(one), seconds(two), Need("at least", 1.7)),
            row(f"{name}, a worker's peak memory", "MB", [run.said["worker_bytes"] / 1e6 for run in two]),
            ratio(
                f"{name}, of that with an eighth of the ranks",
                [run.said["worker_bytes"] for run in two],
                [run.said["worker_bytes"] for run in less],
                Need("at most", 1.15),
            ),
            row(f"{name}, peak memory of the process that reduces", "MB", peaks(two)),
        ]
    return rows


CASES: dict[str, Callable[[Bench], list[Row]]] = {
    case.__name__: case
    for case in (
        load,
        single,
        fallback,
        stream,
        export,
        reopen,
        analyze,
        critical_path,
        analyses,
        gzipped,
        stages,
        snapshot,
        ranks,
    )
}
