"""Collapsed stacks, as flamegraph.pl and speedscope read them: ``thread;frame;frame value``, a line a stack."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from profsuite.errors import ProfsuiteError
from profsuite.exporters.stacks import stacks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from profsuite.exporters.source import Source
    from profsuite.exporters.stacks import Stacks, Weights
    from profsuite.exporters.target import Target

CHUNK = 10_000
"""Lines that are written at once."""


@dataclass(frozen=True, slots=True)
class Collapsed:
    """The format; ``choose`` takes the quantity, ``lacks`` says which flag records it."""

    name: str
    suffix: str
    carries: str
    choose: Callable[[Stacks], tuple[Weights, ...]]
    lacks: str
    compresses: bool = True
    merges: bool = False

    def write(self, source: Source, target: Target) -> str:
        """Write one file; ``ProfsuiteError`` where the trace has nothing of it."""
        trace = source.trace()
        found = stacks(trace)
        weights = [each for each in self.choose(found) if each.value.any()]
        if not weights:
            raise ProfsuiteError(f"{trace.info.source}: {self.lacks}")
        num_lines = 0
        with target.open() as out:
            for each in weights:
                held: list[str] = []
                for line in lines(found, each, each.name if each.unit == "bytes" else None):
                    held.append(line)
                    num_lines += 1
                    if len(held) == CHUNK:
                        out.write("".join(held).encode("utf-8", "replace"))
                        held = []
                out.write("".join(held).encode("utf-8", "replace"))
        return f"{num_lines:,} stacks"


def lines(found: Stacks, weights: Weights, root: str | None = None) -> Iterator[str]:
    """The lines of one quantity, below ``root`` if given; stacks without any of it have none."""
    names = [frame.replace(";", ":") for frame in found.frames]
    head = [] if root is None else [root]
    for node, value in zip(weights.node.tolist(), weights.value.tolist(), strict=True):
        if value:
            frames = [names[frame] for frame in found.path(node)][::-1]
            yield f"{';'.join([*head, *frames])} {value}\n"


FORMAT = Collapsed(
    "collapsed",
    ".collapsed",
    "Self time of the host's call stacks, ns, a line a stack below its thread.",
    lambda found: (found.host,),
    "has no slices on a host thread: no call stacks",
)
