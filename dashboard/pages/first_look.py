"""The overview while the trace is still being analysed: what is known at once, and room for the rest."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from dash import dcc, html

from profsuite.dashboard.components import definition, figure, note, section
from profsuite.dashboard.pages.view import View
from profsuite.exporters.figures.time import device_figure, step_figure
from profsuite.exporters.sections import document
from profsuite.exporters.sections.memory import ABOVE
from profsuite.exporters.sections.whatif import far_apart
from profsuite.exporters.units import duration, percent, size

if TYPE_CHECKING:
    from profsuite.analyzers.report import Report

POLL_MS: Final = 300
COMING: Final = "Being computed."
NO_DEVICE: Final = (
    "No device work in this trace (looked for kernels and copies); activities=[..., ProfilerActivity.CUDA] records "
    "them."
)
NO_STEPS: Final = "No steps in this trace: prof.step() once an iteration marks them."
TIME: Final = "gpu-time-breakdown-sums-to-the-window-exactly"


def first_look(view: View) -> Any:
    """The page; app.py replaces it by the whole as soon as the report is there."""
    report, work = view.session.brief, view.session.examined
    failed = work.state in ("failed", "cancelled")
    verdict = (
        f"This trace could not be analysed: {work.error or 'it was given up'}."
        if failed
        else "What holds this job back is being worked out: findings, idle time and savings follow in a moment."
    )
    waiting = note(verdict if failed else COMING)
    parts = [
        *of_job(view, note(COMING)),
        html.P(", ".join(document(report).facts), className="facts"),
        html.P(verdict, className="verdict pending", role="status"),
        numbers(view, report),
        html.Div(
            [
                figure(device_figure([report], least=1), NO_DEVICE, about=TIME),
                figure(step_figure(report), NO_STEPS, about="steps"),
                *map(_later, ("Utilisation over time", "Memory over time")),
            ],
            className="charts",
        ),
        section("Findings", html.Div(waiting, className="" if failed else "room"), about="findings"),
        html.Div(
            [_later(title) for title in ("Why the GPU was idle", "What would be saved, by replay")], className="charts"
        ),
    ]
    if not failed:
        parts.append(dcc.Interval(id="overview-poll", interval=POLL_MS))
    return html.Div(parts, id="overview")


def _later(title: str) -> Any:
    return html.Figure([html.Figcaption(title), note(COMING)], className="chart pending")


def of_job(view: View, said: Any) -> list[Any]:
    """The answer for all ranks of a job, above that for the one rank; nothing for a trace that stands alone."""
    if len(view.ranks) < 2:
        return []
    rank, title = view.session.entry.rank, html.H2(f"The job: {len(view.ranks)} ranks")
    return [
        html.Section([title, html.Div(said, id="overview-job", className="job")]),
        html.H2(f"Rank {rank}" if rank is not None else "This trace"),
    ]


def numbers(view: View, report: Report) -> Any:
    """The few numbers that everyone looks for first, each with a link to where it comes from and to what it means."""
    cells: list[tuple[str, str, str, str]] = []
    if report.steps is not None and report.steps.median_ns is not None:
        mean, median = report.steps.mean_ns, report.steps.median_ns
        apart = mean is not None and far_apart(mean, median)
        value = f"{duration(median)} (mean {duration(mean or 0)})" if apart else duration(median)
        cells.append(("step, median", value, "timeline", "steps"))
    busiest = max(report.breakdown or (), key=lambda device: device.shares.busy_ns, default=None)
    if busiest is not None and busiest.shares.busy_pct is not None:
        cells.append(("GPU busy", percent(busiest.shares.busy_pct), "timeline", TIME))
        for label, ns, page in (
            ("exposed communication, total", busiest.shares.exposed_comm_ns, "collectives"),
            ("GPU idle, total", busiest.shares.idle_ns, "timeline"),
        ):
            share = percent(100 * ns / busiest.shares.window_ns)
            cells.append((label, f"{duration(ns)} ({share})", page, TIME))
    if report.roofline is not None and report.roofline.mfu_pct is not None:
        cells.append(("of the peak (MFU)", percent(report.roofline.mfu_pct), "kernels", "roofline"))
    if report.memory is not None and report.memory.main is not None:
        main = report.memory.main
        label = f"memory, peak {ABOVE}" if main.deltas_only else "memory, peak"
        cells.append((label, size(main.peak.allocated_bytes), "memory", "memory"))
    if report.findings is None:
        cells.append(("memory, peak", "…", "memory", "memory"))
        cells.append(("saved with the best of the changes", "…", "whatif", "critical-path-and-what-if"))
    elif report.whatif is not None and report.whatif.scenarios:
        best = report.whatif.scenarios[0]
        per_step = best.saving_ms_per_step
        saving = duration(best.saving_ns) if per_step is None else f"{duration(round(per_step * 1e6))} a step"
        cells.append((f"saved with {best.name}", saving, "whatif", "critical-path-and-what-if"))
    return html.Dl(
        [
            html.Div([html.Dt([label, definition(about)]), html.Dd(dcc.Link(value, href=view.link(page)))])
            for label, value, page, about in cells
        ],
        className="numbers",
    )
