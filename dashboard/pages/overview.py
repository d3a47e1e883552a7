"""Overview: what holds the job back, how ranks and steps spent their time, what to do, what the trace lacks."""

from __future__ import annotations

from typing import Any, Final

from dash import dcc, html, no_update

from profsuite.analyzers.job.report import JobReport
from profsuite.dashboard.background import Background
from profsuite.dashboard.components import figure, note, section
from profsuite.dashboard.pages.first_look import NO_DEVICE, NO_STEPS, TIME, first_look, numbers, of_job
from profsuite.dashboard.pages.view import View, address
from profsuite.dashboard.places import placed
from profsuite.exporters.document import Advice
from profsuite.exporters.figures.memory import main_memory_figure
from profsuite.exporters.figures.ranks import rank_figure
from profsuite.exporters.figures.time import device_figure, idle_figure, over_time_figure, step_figure
from profsuite.exporters.figures.work import saving_figure
from profsuite.exporters.sections import document

FINDINGS_SHOWN = 5
RANKS_READ: Final = 8
"""Ranks that are read without being asked for."""
POLL_MS: Final = 500
SPARK: Final = 190
"""Height of a small figure, pixels."""

NO_MEMORY: Final = "No memory events in this trace (looked for [memory] events); profile_memory=True records them."


def overview(view: View) -> Any:
    """The page; as much of it as is known while the rest is being computed.  app.py fills ``overview-ranks``."""
    if view.session.examined.state != "ready":
        return first_look(view)
    report = view.report
    doc = document(report)
    advice = doc.advice or ()
    origin = view.origin_ns
    first = origin if view.session.trace.num_rows("slice") else None
    return html.Div(
        [
            *of_job(view, note(f"What the {len(view.ranks)} ranks say together follows when they are read.")),
            html.P(", ".join(doc.facts), className="facts"),
            html.P(doc.verdict or "Nothing can be said of this trace.", className="verdict", id="verdict"),
            numbers(view, report),
            html.Div(
                [
                    _devices(view),
                    placed(step_figure(report), NO_STEPS, "steps", origin, about="steps"),
                    placed(over_time_figure(report, first, SPARK), NO_DEVICE, "time", origin, about="over-time"),
                    figure(main_memory_figure(report.memory, first, SPARK), NO_MEMORY, about="memory"),
                ],
                className="charts",
            ),
            section(
                "Findings",
                *(_finding(view, number, each) for number, each in enumerate(advice[:FINDINGS_SHOWN])),
                html.Details(
                    [
                        html.Summary(f"{len(advice) - FINDINGS_SHOWN} more"),
                        *(
                            _finding(view, number, each)
                            for number, each in enumerate(advice[FINDINGS_SHOWN:], FINDINGS_SHOWN)
                        ),
                    ]
                )
                if len(advice) > FINDINGS_SHOWN
                else note("No more findings." if advice else "No findings: nothing costs enough to be worth a line."),
                about="findings",
            ),
            html.Div(
                [
                    figure(idle_figure(report), "No idle time on a device was recorded.", about="idle-attributed"),
                    figure(
                        saving_figure(report),
                        "No obstacle's removal would shorten this recording.",
                        about="critical-path-and-what-if",
                    ),
                ],
                className="charts",
            ),
            section(
                "What the trace lacks or got wrong",
                html.Ul([html.Li(remark) for remark in doc.remarks]) if doc.remarks else note("Nothing."),
                about="what-the-health-table-says",
            ),
        ],
        id="overview",
    )


def _devices(view: View) -> Any:
    """How each device spent its time; of a job each rank's, once they are read."""
    if len(view.ranks) < 2:
        return figure(device_figure([view.report], least=1), NO_DEVICE, about=TIME)
    many = len(view.ranks) > RANKS_READ
    return html.Div(
        [
            html.Div(note(f"The {len(view.ranks)} ranks of this job are read one by one."), id="overview-ranks"),
            html.Button(
                f"Read all {len(view.ranks)} ranks", id="ranks-read", type="button", className="quiet", hidden=not many
            ),
            dcc.Interval(id="ranks-poll", interval=POLL_MS, disabled=many),
        ]
    )


def together(work: Background[JobReport], key: str) -> Any:
    """What holds the whole job back, or nothing new while its ranks are read."""
    if work.result is None:
        return no_update
    return [
        html.P(work.result.verdict, className="verdict"),
        html.P(dcc.Link("Who waits for whom, and where", href=address(key, "collectives"))),
    ]


def ranks(work: Background[JobReport]) -> Any:
    """How each rank of a job spent its time, or how far their reading is."""
    if work.result is not None:
        return figure(rank_figure(work.result), NO_DEVICE, about=TIME)
    if work.state == "loading":
        return note(f"Reading the ranks of the job: {work.done} of {work.total or '?'}")
    return note(f"The ranks cannot be shown together: {work.error or 'the reading was given up.'}")


def _finding(view: View, number: int, advice: Advice) -> Any:
    finding = (view.report.findings or ())[number]
    rows = next((evidence.slice_ids for evidence in finding.evidence if evidence.slice_ids), ())
    lines = [html.P([html.Strong(f"{label.capitalize()}: "), text]) for label, text in advice.lines()]
    if rows:
        lines.append(html.P(dcc.Link("Show it in the timeline", href=view.link("timeline", selected=rows[0]))))
    return html.Article(
        [html.H3([f"{number + 1}. ", html.Span(advice.severity, className="severity"), f" {advice.title}"]), *lines],
        className=f"finding {advice.severity}",
    )
