"""The formats that a trace can be written in: what a format is, and the registry of all.

One module a format: it defines ``FORMAT``, and has a line in ``FORMATS``.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final, Protocol, cast

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


FORMATS: Final[dict[str, str]] = {
    "parquet": "profsuite.exporters.parquet",
    "arrow": "profsuite.exporters.arrow",
    "chrome": "profsuite.exporters.chrome",
    "perfetto": "profsuite.exporters.perfetto",
    "speedscope": "profsuite.exporters.speedscope",
    "collapsed": "profsuite.exporters.collapsed",
    "collapsed-device": "profsuite.exporters.collapsed_device",
    "collapsed-memory": "profsuite.exporters.collapsed_memory",
    "pprof": "profsuite.exporters.pprof",
    "csv": "profsuite.exporters.csv_tables",
    "sqlite": "profsuite.exporters.sqlite",
    "duckdb": "profsuite.exporters.duckdb",
    "prometheus": "profsuite.exporters.prometheus",
    "openmetrics": "profsuite.exporters.openmetrics",
    "otlp": "profsuite.exporters.otlp",
    "tensorboard": "profsuite.exporters.tensorboard",
    "memory-snapshot": "profsuite.exporters.memory_snapshot",
    "html": "profsuite.exporters.html",
    "markdown": "profsuite.exporters.markdown",
    "json": "profsuite.exporters.json",
    "junit": "profsuite.exporters.junit",
}
"""Name -> module; ``profsuite.cli.convert`` lists the same names."""

COMPRESSIONS: Final = {".gz": "gzip", ".zst": "zstd"}
"""Endings that compress a file, where its format ``compresses``."""


def format_called(name: str) -> Format:
    """The format of that name; ``ProfsuiteError`` if there is none."""
    if name not in FORMATS:
        raise ProfsuiteError(f"there is no format {name!r}; there are {', '.join(FORMATS)}")
    return cast("Format", import_module(FORMATS[name]).FORMAT)


def format_of(path: str) -> Format:
    """The format whose suffix ``path`` has, the longest first; ``ProfsuiteError`` if none has it."""
    bare = path
    for ending in COMPRESSIONS:
        bare = bare.removesuffix(ending)
    known = sorted(map(format_called, FORMATS), key=lambda form: len(form.suffix), reverse=True)
    for form in known:
        if form.suffix and (path.endswith(form.suffix) or (form.compresses and bare.endswith(form.suffix))):
            return form
    raise ProfsuiteError(f"{path}: its ending names no format; name one of {', '.join(FORMATS)}")
