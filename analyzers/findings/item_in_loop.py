"""The host reads values of the device inside the job (``.item()``, ``nonzero``, ``.cpu()``); the device then idles."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from profsuite.analyzers.findings.host_waits import host_waits, matters, waits_finding
from profsuite.analyzers.findings.wording import count
from profsuite.analyzers.waits import Wait

if TYPE_CHECKING:
    from profsuite.analyzers.analysis import Analysis
    from profsuite.analyzers.base import Finding

KINDS = (Wait.VALUE, Wait.TO_HOST)

_SIZES = re.compile(r"nonzero|masked_select|unique|aten::index$|_index_put|repeat_interleave")
"""Ops whose output's size depends on values."""


def item_in_loop(analysis: Analysis) -> tuple[Finding, ...]:
    """Fires when reading values on the host leaves the device idle for 2 % of the window, or every step does it.

    Remedy: keep values on the device and read them every N steps; masks instead of sizes that depend on values.
    """
    waits = host_waits(analysis, KINDS)
    if not matters(analysis, waits):
        return ()
    kinds = analysis.waits.kind[waits.rows]
    labels = {Wait.VALUE: "of them values or sizes (.item(), nonzero)", Wait.TO_HOST: "of them copies (.cpu(), print)"}
    parts = {label: waits.rows[kinds == kind] for kind, label in labels.items()}
    return (
        waits_finding(
            analysis,
            waits,
            kind="item_in_loop",
            idle="after the host read values of it",
            often="The host reads values of the GPU",
            more=[
                count(label, analysis.waits.number(rows), rows[:5].tolist())
                for label, rows in parts.items()
                if len(rows)
            ],
            remedy=item_remedy,
        ),
    )


def item_remedy(op: str) -> str:
    """What to do about the op that waits most."""
    if _SIZES.search(op):
        what = (
            "The size of this op's output depends on values: replace boolean indexing, nonzero and unique by masked "
            "arithmetic (torch.where) or by outputs of a fixed size (torch.nonzero_static), and give "
            "repeat_interleave its output_size."
        )
    elif re.search(r"item$|is_nonzero|_local_scalar_dense|equal", op):
        what = (
            "Keep losses and metrics on the GPU and read them every N steps; replace `if tensor:` and float(tensor) "
            "by torch.where and tensor arithmetic, and clip gradients without reading their norm."
        )
    else:
        what = (
            "Copy results to the host less often, into pinned memory with non_blocking=True, and read them some steps "
            "later; don't print tensors in the loop."
        )
    return f"{what} torch.cuda.set_sync_debug_mode('warn') names each line that waits."
