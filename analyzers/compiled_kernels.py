"""Kernels that torch.compile generated, or that a compiled region launched, back to the source that they stand for."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from msgspec import Struct

from profsuite.analyzers.base import Ns, Pct, pct
from profsuite.analyzers.enclosing import enclosing_of
from profsuite.analyzers.places import source_frame
from profsuite.analyzers.ranking import numbered, sum_by_group

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from profsuite.trace.model import Trace

    Int64s = NDArray[np.int64]

GENERATED: Final = re.compile(r"^triton_(?:poi|red|per|mm|tem|for|spl|unk)_")
"""Names that Inductor gives its Triton kernels (``torch/_inductor/codegen/triton.py``)."""
REGION: Final = re.compile(r"^Torch-Compiled Region: (\d{1,9})/(\d{1,9})$")
"""torch's mark of a call of a compiled function: number of the frame, number of its compilation."""


class CompiledKernel(Struct, frozen=True, kw_only=True):
    """All runs of one kernel in one compiled function; null where nothing recorded it.

    ``generated`` tells kernels that the compiler wrote from a library's.  ``region`` is the compiled function as torch
    numbers it (``2/1``), ``function`` and ``source`` are its name and line; ``frame`` is the innermost Python frame
    of the user's code around the launch of the longest run, ``file`` the generated source, ``op`` the op that
    launched it.  ``pct`` is of all kernels' time.
    """

    name: str
    generated: bool
    count: int
    total_ns: Ns
    pct: Pct | None
    region: str | None
    function: str | None
    source: str | None
    frame: str | None
    file: str | None
    op: str | None
    longest_slice_id: int


class CompiledKernels(Struct, frozen=True, kw_only=True):
    """The kernels of compiled functions, most time first; ``total_ns`` sums all of them, ``generated_ns`` those that
    the compiler wrote; ``pct`` is of all kernels' time.
    """

    num_names: int
    total_ns: Ns
    generated_ns: Ns
    pct: Pct | None
    rows: tuple[CompiledKernel, ...]


def compiled_kernels(trace: Trace, top: int = 10) -> CompiledKernels | None:
    """The ``top`` kernels of compiled functions; null where no kernel is known to be one's."""
    ids = trace.array("kernel", "slice_id").astype(np.int64)
    if not len(ids):
        return None
    words, name = trace.words("slice", "name"), trace.array("slice", "name").astype(np.int64)
    launch, op = trace.array("kernel", "launch_id").astype(np.int64), trace.array("kernel", "op_id").astype(np.int64)
    anchor = np.where(launch >= 0, launch, op)
    is_region = np.array([REGION.match(word) is not None for word in words] or [False])
    region_row = enclosing_of(trace, is_region[name], anchor)
    region = np.where(region_row >= 0, name[region_row], -1)
    file_of = np.full(trace.num_rows("slice") + 1, -1, np.int64)
    file_of[trace.array("op", "slice_id")] = trace.array("op", "kernel_file")
    file_row = enclosing_of(trace, file_of[:-1] >= 0, np.where(op >= 0, op, anchor))
    file = file_of[file_row]
    generated = (file >= 0) | np.array([GENERATED.match(word) is not None for word in words] or [False])[name[ids]]
    found = np.flatnonzero(generated | (region >= 0))
    if not len(found):
        return None
    dur = trace.array("slice", "dur")[ids]
    key = numbered(name[ids][found] * (len(words) + 1) + region[found] + 1)
    key = numbered(key * (int(file.max()) + 2) + file[found] + 1)
    size = int(key.max()) + 1
    totals, counts = sum_by_group(key, dur[found], size), np.bincount(key, minlength=size)
    longest = np.zeros(size, np.int64)
    order = np.argsort(dur[found], kind="stable")
    longest[key[order]] = found[order]  # the last assignment stays
    everything = int(dur.sum())
    compiled = _functions(trace)
    files = trace.words("op", "kernel_file")
    rows = []
    for g in np.lexsort((-counts, -totals))[:top].tolist():
        run = int(longest[g])
        number = None if region[run] < 0 else _number(str(words[region[run]]))
        function, source = compiled.get(number, (None, None)) if number is not None else (None, None)
        rows.append(
            CompiledKernel(
                name=str(words[name[ids[run]]]),
                generated=bool(generated[run]),
                count=int(counts[g]),
                total_ns=int(totals[g]),
                pct=pct(int(totals[g]), everything),
                region=None if number is None else f"{number[0]}/{number[1]}",
                function=function,
                source=source,
                frame=source_frame(trace, int(anchor[run])) if anchor[run] >= 0 else None,
                file=str(files[file[run]]) if file[run] >= 0 else None,
                op=str(words[name[op[run]]]) if op[run] >= 0 else None,
                longest_slice_id=int(ids[run]),
            )
        )
    return CompiledKernels(
        num_names=len(np.unique(name[ids][found])),
        total_ns=int(dur[found].sum()),
        generated_ns=int(dur[generated].sum()),
        pct=pct(int(dur[found].sum()), everything),
        rows=tuple(rows),
    )


def _number(region: str) -> tuple[int, int] | None:
    found = REGION.match(region)
    return None if found is None else (int(found[1]), int(found[2]))


def _functions(trace: Trace) -> dict[tuple[int, int] | None, tuple[str | None, str | None]]:
    """Name and line of each compiled function, by its frame's number and that of the compilation."""
    events: Sequence[dict[str, Any]] = trace.table("compile_event").to_pylist()
    return {
        (event["frame_id"], event["frame_compile_id"] or 0): (
            event["name"],
            None if event["file"] is None else f"{event['file']}:{event['line'] or '?'}",
        )
        for event in events
        if event["kind"] == "compile" and event["frame_id"] is not None
    }
