"""``export``: a trace in another format."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from profsuite.errors import SelectionError
from profsuite.exporters.formats import format_called, format_of
from profsuite.exporters.source import source_of
from profsuite.exporters.target import replacing

if TYPE_CHECKING:
    from profsuite.exporters.formats import Format
    from profsuite.exporters.source import Source
    from profsuite.trace.model import Trace

    Item = Trace | str | os.PathLike[str]


ENDPOINTS = ("http://", "https://")
"""What the addresses of collectors begin with."""


def export(item: Item | Sequence[Item], path: str | os.PathLike[str], to: str | None = None, **options: Any) -> Path:
    """Write a trace, or the file or run folder of one, as ``path``; returns the path.

    ``to`` names the format (docs/formats.md lists them), by default that of the path's ending; ``.gz`` and
    ``.zst`` after it compress.  An ``http://`` address is an OpenTelemetry collector's: the trace is sent there.
    A sequence is a job's ranks, for formats that take several.  ``options`` are those of ``profsuite.load``; of a
    ``Trace`` only ``steps`` and ``time`` mean something.  ``ProfsuiteError`` if there is no such format or the path
    cannot be written, ``TraceError`` and ``SelectionError`` as of ``load``.
    """
    if to in (None, "otlp") and os.fspath(path).startswith(ENDPOINTS):
        from profsuite.exporters.otlp import send

        send(source_of(item, **options), os.fspath(path))
        return Path(path)
    form = format_of(os.fspath(path)) if to is None else format_called(to)
    write(form, source_of(item, **options), Path(path))
    return Path(path)


def write(form: Format, source: Source, path: Path) -> str:
    """Write ``source`` to ``path``; returns what was written, in a few words."""
    if len(source) > 1 and not form.merges:
        raise SelectionError(f"{form.name}: takes one trace at a time, these are {len(source)}; choose a rank")
    with replacing(path, form.compresses, not form.suffix) as target:
        return form.write(source, target)
