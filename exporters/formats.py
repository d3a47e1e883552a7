"""The formats that a trace can be written in: what a format is, and the registry of all.

One module a format: it defines ``FORMAT``, and has a line in ``FORMATS``, by which a format is found without
importing the others (``tests/exporters`` compares the two).
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, cast

from profsuite.errors import ProfsuiteError

if TYPE_CHECKING:
    from profsuite.exporters.source import Source
    from profsuite.exporters.target import Target


class Format(Protocol):
    """A file format, or a folder of files, that traces are written in.

    ``name`` is what ``--to`` takes, ``suffix`` what its files end in ("" for a folder), ``carries`` one
    sentence on what of a trace it holds.  ``compresses`` says that gzip and zstd are usual for it, by
    ``.gz`` and ``.zst`` after the suffix; ``merges`` that it holds several ranks in one file.
    """

    @property
    def name(self) -> str:
        """Name, as ``--to`` takes it."""

    @property
    def suffix(self) -> str:
        """The ending of its files, "" where it is a folder."""

    @property
    def carries(self) -> str:
        """What it holds of a trace."""

    @property
    def compresses(self) -> bool:
        """Whether ``.gz`` and ``.zst`` are understood."""

    @property
    def merges(self) -> bool:
        """Whether several ranks fit into one file."""

    def write(self, source: Source, target: Target) -> str:
        """Write all of ``source``; returns what was written, in a few words ("1,234 events")."""


class Entry(NamedTuple):
    """Where a format is, and what its ``suffix`` and ``compresses`` are."""

    module: str
    suffix: str = ""
    compresses: bool = False


FORMATS: Final[dict[str, Entry]] = {
    "parquet": Entry("parquet"),
    "arrow": Entry("arrow"),
    "chrome": Entry("chrome", ".json", True),
    "perfetto": Entry("perfetto", ".pftrace"),
    "speedscope": Entry("speedscope", ".speedscope.json", True),
    "collapsed": Entry("collapsed", ".collapsed", True),
    "collapsed-device": Entry("collapsed_device", ".device.collapsed", True),
    "collapsed-memory": Entry("collapsed_memory", ".memory.collapsed", True),
    "pprof": Entry("pprof", ".pb.gz"),
    "csv": Entry("csv_tables"),
    "sqlite": Entry("sqlite", ".sqlite"),
    "duckdb": Entry("duckdb", ".duckdb"),
    "prometheus": Entry("prometheus", ".prom"),
    "openmetrics": Entry("openmetrics", ".openmetrics"),
    "otlp": Entry("otlp", ".otlp.jsonl", True),
    "chakra": Entry("chakra", ".chakra.json", True),
    "tensorboard": Entry("tensorboard"),
    "xprof": Entry("xprof"),
    "memory-snapshot": Entry("memory_snapshot", ".snapshot.pickle"),
    "html": Entry("html", ".html"),
    "markdown": Entry("markdown", ".md"),
    "json": Entry("json", ".report.json"),
    "junit": Entry("junit", ".junit.xml"),
}
"""Name -> entry; ``profsuite.cli.convert`` lists the same names."""

COMPRESSIONS: Final = {".gz": "gzip", ".zst": "zstd"}
"""Endings that compress a file, where its format ``compresses``."""


def format_called(name: str) -> Format:
    """The format of that name; ``ProfsuiteError`` if there is none."""
    if name not in FORMATS:
        raise ProfsuiteError(f"there is no format {name!r}; there are {', '.join(FORMATS)}")
    return cast("Format", import_module(f"profsuite.exporters.{FORMATS[name].module}").FORMAT)


def format_of(path: str) -> Format:
    """The format whose suffix ``path`` has, the longest first; ``ProfsuiteError`` if none has it."""
    bare = path
    for ending in COMPRESSIONS:
        bare = bare.removesuffix(ending)
    known = [(name, entry) for name, entry in FORMATS.items() if entry.suffix]
    for name, entry in sorted(known, key=lambda each: len(each[1].suffix), reverse=True):
        if path.endswith(entry.suffix) or (entry.compresses and bare.endswith(entry.suffix)):
            return format_called(name)
    raise ProfsuiteError(f"{path}: its ending names no format; name one of {', '.join(FORMATS)}")
