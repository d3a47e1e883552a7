"""The host waits for the device for the sake of waiting, or inside an op that does not say why; the device idles."""

from __future__ import annotations

from typing import TYPE_CHECKING

from profsuite.analyzers.findings.host_waits import host_waits, matters, waits_finding
from profsuite.analyzers.waits import Wait

if TYPE_CHECKING:
    from profsuite.analyzers.analysis import Analysis
    from profsuite.analyzers.base import Finding

KINDS = (Wait.EXPLICIT, Wait.IN_OP, Wait.OTHER_COPY)


def sync_in_loop(analysis: Analysis) -> tuple[Finding, ...]:
    """Fires when explicit and unnamed waits leave the device idle for 2 % of the window, or every step has one.

    Waits that read a value or copy are findings of their own (``item_in_loop``, ``pageable_h2d``, ``blocking_h2d``).

    Remedy: no torch.cuda.synchronize() in the loop; stream.wait_event orders streams.
    """
    waits = host_waits(analysis, KINDS)
    if not matters(analysis, waits):
        return ()
    return (
        waits_finding(
            analysis,
            waits,
            kind="sync_in_loop",
            idle="after the host waited for it",
            often="The host waits for the GPU",
            more=(),
            remedy=lambda _: REMEDY,
        ),
    )


REMEDY = (
    "Don't wait for the GPU inside the loop: remove torch.cuda.synchronize() and event.synchronize() (time with CUDA "
    "events that are read later), and order streams with stream.wait_event, which does not hold the host. "
    "torch.cuda.set_sync_debug_mode('warn') names each line that waits."
)
