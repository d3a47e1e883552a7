"""Collectives: who waits for whom, what each kind moves and how fast, what of it nothing hides."""

from __future__ import annotations

from typing import Any, Final

from dash import html

from profsuite.analyzers.job.report import JobReport
from profsuite.analyzers.own_collectives import own_collectives
from profsuite.dashboard.components import figure, link_column, name_column, note, number, section, table
from profsuite.dashboard.pages.view import View, address
from profsuite.exporters.figures.ranks import bandwidth_figure, over_time_figures, waiting_figure

ONE_RANK: Final = (
    "This trace stands alone: what ranks wait for needs the traces of at least two ranks of one job in one folder "
    "(looked for files whose name or header gives their rank)."
)

NONE_CALLED: Final = (
    "No collective in this trace (looked for NCCL's and RCCL's kernels, and for the marks of gloo and others); "
    "ProfilerActivity.CUDA records those of devices."
)
NO_COLLECTIVES: Final = (
    "No collectives over time: none was recorded on ranks whose clocks can be aligned. ProfilerActivity.CUDA records "
    "NCCL's kernels."
)
NO_BANDWIDTH: Final = (
    "No bandwidth is known: it takes collectives whose sizes were recorded (torch 2.2 and newer write them)."
)


def collectives(view: View) -> Any:
    """The page; ``view.job`` is null for a trace that stands alone."""
    job = view.job
    if job is None:
        return html.Div([note(ONE_RANK), _own(view), _own_table(view)])
    return html.Div(
        [
            html.P(job.verdict, className="verdict", id="job-verdict"),
            section("Ranks", _ranks(view, job), about="ranks-of-a-job"),
            *_over_time(job),
            figure(
                waiting_figure(job),
                "No rank waited for another in the collectives that were matched.",
                about="ranks-of-a-job",
            ),
            section("Collectives", _table(job), about="ranks-of-a-job"),
            figure(bandwidth_figure(job), NO_BANDWIDTH, about="ranks-of-a-job"),
            *(note(text) for text in job.notes),
        ]
    )


def _own(view: View) -> Any:
    """What the one rank's own file says."""
    devices = view.report.breakdown or ()
    rows = [
        {
            "device": "?" if device.device is None else str(device.device),
            "comm_ms": device.shares.comm_ns / 1e6,
            "exposed_ms": device.shares.exposed_comm_ns / 1e6,
        }
        for device in devices
        if device.shares.comm_ns
    ]
    columns = [
        {"field": "device", "headerName": "device"},
        number("comm_ms", "communication, total", "ms"),
        number("exposed_ms", "of it exposed, total", "ms"),
    ]
    return section(
        "Communication of this rank",
        table("communication", columns, rows, "No communication on a device in this trace."),
        about="gpu-time-breakdown-sums-to-the-window-exactly",
    )


def _own_table(view: View) -> Any:
    rows = [
        {
            "kind": row.kind,
            "group": row.group,
            "dtype": row.dtype,
            "mb": None if row.num_bytes is None else row.num_bytes / 1e6,
            "count": row.count,
            "total_ms": row.total_ns / 1e6,
            "mean_us": row.total_ns / row.count / 1e3,
            "min_us": row.min_ns / 1e3,
            "max_us": row.max_ns / 1e3,
            "exposed_ms": row.exposed_ns / 1e6,
            "longest": view.slice_link("longest", row.longest_slice_id),
        }
        for row in own_collectives(view.session.analysis.collectives)
    ]
    columns = [
        name_column("kind", "collective", minWidth=150),
        {"field": "group", "headerName": "group", "minWidth": 110},
        {"field": "dtype", "headerName": "dtype"},
        number("mb", "size", "MB"),
        number("count", "calls", digits=0),
        number("total_ms", "total", "ms"),
        number("mean_us", "mean", "µs"),
        number("min_us", "min", "µs"),
        number("max_us", "max", "µs"),
        number("exposed_ms", "of it exposed", "ms", sort="desc"),
        link_column("longest"),
    ]
    shown = [column for column in columns if any(row[column["field"]] is not None for row in rows)]
    return section(
        "Its collectives, by kind and size",
        table("own_collectives", shown, rows, NONE_CALLED),
        about="collectives-of-one-rank",
    )


def _ranks(view: View, job: JobReport) -> Any:
    of_rank = {entry.rank: entry.key for entry in view.ranks}
    rows = [
        {
            "rank": row.rank,
            "step_ms": None if row.mean_step_ns is None else row.mean_step_ns / 1e6,
            "compute_ms": None if row.compute_ns is None else row.compute_ns / 1e6,
            "comm_ms": row.comm_ns / 1e6,
            "exposed_ms": row.exposed_comm_ns / 1e6,
            "waited_ms": row.waited_ns / 1e6,
            "caused_ms": row.caused_ns / 1e6,
            "num_last": row.num_last,
            "offset_us": None if row.clock_offset_ns is None else row.clock_offset_ns / 1e3,
            "residual_us": None if row.clock_residual_ns is None else row.clock_residual_ns / 1e3,
            "place": f"[show]({address(of_rank[row.rank], 'timeline')})" if row.rank in of_rank else None,
        }
        for row in job.ranks
    ]
    columns = [
        number("rank", "rank", digits=0, sort="asc"),
        number("step_ms", "mean step", "ms"),
        number("compute_ms", "compute, total", "ms"),
        number("comm_ms", "communication, total", "ms"),
        number("exposed_ms", "of it exposed, total", "ms"),
        number("waited_ms", "waited for others, total", "ms"),
        number("caused_ms", "others waited for it, total", "ms"),
        number("num_last", "arrived last at", digits=0),
        number("offset_us", "clock ahead by", "µs"),
        number("residual_us", "± (median)", "µs"),
        link_column("place"),
    ]
    return table("ranks", columns, rows, "No rank could be read.")


def _over_time(job: JobReport) -> list[Any]:
    made = over_time_figures(job)
    return [figure(each, "", about="over-time") for each in made] or [note(NO_COLLECTIVES)]


def _table(job: JobReport) -> Any:
    rows = [
        {
            "kind": row.kind,
            "group": row.group,
            "num_ranks": row.num_ranks,
            "count": row.count,
            "mb": None if row.num_bytes is None else row.num_bytes / 1e6,
            "each_us": row.transfer_ns / row.count / 1e3,
            "transfer_ms": row.transfer_ns / 1e6,
            "skew_ms": row.skew_ns / 1e6,
            "exposed_ms": row.exposed_ns / 1e6,
            "waiting_ms": row.exposed_wait_ns / 1e6,
            "waits_for": row.waits_for,
            "alg": row.alg_gb_per_s,
            "bus": row.bus_gb_per_s,
            "fabric": row.fabric,
            "fabric_pct": row.fabric_pct,
        }
        for row in job.collectives
    ]
    columns = [
        name_column("kind", "collective"),
        name_column("group", "group"),
        number("num_ranks", "ranks", digits=0),
        number("count", "count", digits=0),
        number("mb", "moved, total", "MB"),
        number("each_us", "transfer, mean", "µs"),
        number("transfer_ms", "transfer, total", "ms"),
        number("skew_ms", "longest wait of a rank, total", "ms"),
        number("exposed_ms", "exposed, total of all ranks", "ms", sort="desc"),
        number("waiting_ms", "of the exposed: waiting, total of all ranks", "ms"),
        number("waits_for", "most for rank", digits=0),
        number("alg", "algorithm", "GB/s", digits=2),
        number("bus", "bus", "GB/s", digits=2),
        {"field": "fabric", "headerName": "fabric"},
        number("fabric_pct", "of the fabric", "%", digits=1),
    ]
    shown = [c for c in columns if any(row[c["field"]] is not None for row in rows)]
    return table("collectives", shown, rows, "No collective was recorded by two ranks.")
