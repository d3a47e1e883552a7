"""The device work of both sides, cut to the windows: whose it is and how long, each piece counted once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from profsuite.analyzers.diff.parts import clipped

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from profsuite.analyzers.diff.calls import Calls
    from profsuite.analyzers.diff.sides import Side


@dataclass(frozen=True)
class Pieces:
    """Pieces of device work, one element each; a piece that two windows share is two.

    ``call`` is the op call (of ``Calls``) that launched it, -1 for none; ``step`` the position of its step on its side;
    ``length`` in ns; ``starts`` whether it starts in that window; ``row`` of its side's ``slice``; ``kind`` a code of
    ``WORK_KINDS``; ``is_after`` its side.
    """

    call: NDArray[np.int64]
    step: NDArray[np.int64]
    length: NDArray[np.int64]
    starts: NDArray[np.bool_]
    row: NDArray[np.int64]
    kind: NDArray[np.int64]
    is_after: NDArray[np.bool_]

    def where(self, mask: NDArray[np.bool_]) -> Pieces:
        """Some of the pieces."""
        return Pieces(**{name: getattr(self, name)[mask] for name in self.__dataclass_fields__})


def pieces(before: Side, after: Side, calls: Calls) -> Pieces:
    """The device work of both sides, of all devices."""
    columns: dict[str, list[NDArray[np.int64]]] = {
        c: [np.zeros(0, np.int64)] for c in ("call", "step", "length", "starts", "row", "kind", "after")
    }
    for number, side in enumerate((before, after)):
        for device, work in enumerate(side.work):
            element, step, length, starts = clipped(side, device)
            columns["call"].append(calls.element[number][work.op_ids[element]])
            columns["step"].append(step)
            columns["length"].append(length)
            columns["starts"].append(starts.astype(np.int64))
            columns["row"].append(work.ids[element])
            columns["kind"].append(work.kind[element].astype(np.int64))
            columns["after"].append(np.full(len(element), number))
    whole = {name: np.concatenate(parts) for name, parts in columns.items()}
    return Pieces(
        call=whole["call"],
        step=whole["step"],
        length=whole["length"],
        starts=whole["starts"].astype(bool),
        row=whole["row"],
        kind=whole["kind"],
        is_after=whole["after"].astype(bool),
    )
