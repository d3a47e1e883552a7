"""What is exported: one trace or a job's ranks, as tables or as batches of raw columns."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from profsuite.trace.batches import SpillBatches, TableBatches
from profsuite.trace.load import load, selected, stream
from profsuite.trace.model import Trace
from profsuite.trace.source import open_source
from profsuite.trace.spill import Spill

if TYPE_CHECKING:
    from profsuite.trace.batches import Batches

Item = Trace | str | os.PathLike[str]
Loader = Callable[[str], Trace]
Streamer = Callable[[str], AbstractContextManager[Spill]]


@dataclass(frozen=True)
class Source:
    """Traces to export, one a rank: ``Trace`` objects, or paths that are read when they are needed.

    ``load_trace`` reads a path to a ``Trace``; ``selected`` says that it takes a part only, so that no path
    may be streamed past it; ``stream_trace`` gives the raw columns of a path.
    """

    inputs: Sequence[Trace | str]
    load_trace: Loader = load
    stream_trace: Streamer = stream
    selected: bool = False

    def __len__(self) -> int:
        return len(self.inputs)

    @property
    def name(self) -> str:
        """Where the first trace comes from."""
        first = self.inputs[0]
        return first.info.source if isinstance(first, Trace) else first

    def traces(self) -> Iterator[Trace]:
        """The traces one after another; each is free to be forgotten before the next is read."""
        for item in self.inputs:
            yield item if isinstance(item, Trace) else self.load_trace(item)

    def trace(self) -> Trace:
        """The only trace; ``ValueError`` where there are several."""
        (trace,) = self.traces()
        return trace

    @contextmanager
    def batches(self) -> Iterator[list[Batches]]:
        """The raw columns of each rank in batches: of a file as they were read, by way of the disk, else from tables.

        Tables lack a few args that the columns have: device and stream of what is no work.
        """
        with ExitStack() as stack:
            yield [self._batches(item, stack) for item in self.inputs]

    def _batches(self, item: Trace | str, stack: ExitStack) -> Batches:
        if isinstance(item, str) and not self.selected and _is_streamed(item):
            return SpillBatches(stack.enter_context(self.stream_trace(item)))
        return TableBatches(item if isinstance(item, Trace) else self.load_trace(item))


def _is_streamed(path: str) -> bool:
    if path == "-" or "://" in path:
        return True
    file = Path(path)
    if not file.is_file():
        return False  # a run folder; or load says what is wrong with it
    with open_source(path) as source:
        return source.format == "json"


def source_of(item: Item | Sequence[Item], **options: Any) -> Source:
    """The source of a trace, a path, or several of them; ``options`` are those of ``profsuite.load``.

    Of a ``Trace`` the part is taken that ``steps`` and ``time`` say; the others are about files.  ``TypeError``
    for an option that ``load`` has not.
    """
    inspect.signature(load).bind("", **options)
    items = item if isinstance(item, Sequence) and not isinstance(item, str) else [item]
    part = {name: options[name] for name in ("steps", "time") if options.get(name) is not None}
    inputs = [selected(each, **part) if isinstance(each, Trace) else os.fspath(each) for each in items]
    streaming = {name: value for name, value in options.items() if name in ("max_unpacked", "reader", "progress")}
    return Source(inputs, lambda path: load(path, **options), lambda path: stream(path, **streaming), bool(part))
