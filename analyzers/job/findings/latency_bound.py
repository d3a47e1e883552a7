"""Collectives that latency decides, by what transfers of several sizes took on this very job."""

from __future__ import annotations

from typing import TYPE_CHECKING

from profsuite.analyzers.base import Evidence, Finding, Place
from profsuite.analyzers.findings.wording import count, grade, ms, percent, share, time

if TYPE_CHECKING:
    from profsuite.analyzers.job.report import Job
    from profsuite.analyzers.job.table import CollectiveRow

MOST = 0.5
"""Share of the transfers' time from which latency decides."""
LEAST = 0.02
"""Share of the ranks' windows that the latency must be exposed for."""
PLAUSIBLE_ERROR_PCT = 25.0
"""A fit that is further off says nothing."""


def latency_bound(job: Job) -> tuple[Finding, ...]:
    """Fires for each kind and group whose transfers are half latency, exposed for 2 % of the ranks' time."""
    return tuple(finding for row in job.collectives if (finding := _of(job, row)) is not None)


def _of(job: Job, row: CollectiveRow) -> Finding | None:
    model = row.transfers
    if model is None or not row.num_bytes or not row.transfer_ns or model.error_pct > PLAUSIBLE_ERROR_PCT:
        return None
    latency = min(model.latency_ns * row.count, row.transfer_ns)
    part = latency / row.transfer_ns
    # of the exposed transfer (summed over the ranks) the part that is latency
    exposed = int(min(row.exposed_ns - row.exposed_wait_ns, row.transfer_ns * row.num_ranks) * part)
    fraction = exposed / job.window_ns if job.window_ns else 0.0
    if part < MOST or fraction < LEAST:
        return None
    each = row.num_bytes // row.count
    group = f" of group {row.group}" if row.group else ""
    return Finding(
        id="latency_bound_collectives",
        title=f"{row.kind}{group}: {percent(part)} of the transfer is latency, the messages are too small",
        severity=grade(fraction),
        evidence=(
            count("collectives", row.count),
            Evidence(label="mean size", value=each, unit="bytes"),
            time("latency, fitted", int(model.latency_ns)),
            Evidence(label="bandwidth, fitted", value=model.bandwidth_gb_per_s, unit="GB/s"),
            Evidence(label="size that reaches 90 % of it", value=model.bytes_at_90_pct, unit="bytes"),
            share("share of the ranks' time", fraction),
        ),
        where=Place(),
        remedy=(
            f"Send at least {model.bytes_at_90_pct / 1e6:,.1f} MB at a time instead of {each / 1e6:,.3f} MB: DDP's "
            f"bucket_cap_mb={max(1, round(model.bytes_at_90_pct / 2**20))}, fully_shard on larger blocks, one tensor "
            f"for many small ones. It gives back at most the latency, {ms(exposed / job.size)} a rank here."
        ),
        cost_ns=exposed // job.size,
    )
