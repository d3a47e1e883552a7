"""Overview: what holds the job back, what to do and what it would save; time by step; what the trace lacks."""

from __future__ import annotations

from typing import Any

from dash import dcc, html

from profsuite.dashboard.components import figure, note, section
from profsuite.dashboard.pages.first_look import first_look, numbers
from profsuite.dashboard.pages.view import View
from profsuite.exporters.document import Advice
from profsuite.exporters.figures.time import device_figure, idle_figure, step_figure
from profsuite.exporters.figures.work import saving_figure
from profsuite.exporters.sections import document

FINDINGS_SHOWN = 5


def overview(view: View) -> Any:
    """The page; as much of it as is known while the rest is being computed."""
    if view.session.examined.state != "ready":
        return first_look(view)
    report = view.report
    doc = document(report)
    advice = doc.advice or ()
    return html.Div(
        [
            html.P(", ".join(doc.facts), className="facts"),
            html.P(doc.verdict or "Nothing can be said of this trace.", className="verdict", id="verdict"),
            numbers(view, report),
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
                    figure(
                        step_figure(report) or device_figure([report]),
                        "No steps with device work: call prof.step() once an iteration, with ProfilerActivity.CUDA.",
                    ),
                    figure(idle_figure(report), "No idle time on a device was recorded."),
                    figure(saving_figure(report), "No obstacle's removal would shorten this recording."),
                ],
                className="charts",
            ),
            section(
                "What the trace lacks or got wrong",
                html.Ul([html.Li(remark) for remark in doc.remarks]) if doc.remarks else note("Nothing."),
            ),
        ],
        id="overview",
    )


def _finding(view: View, number: int, advice: Advice) -> Any:
    finding = (view.report.findings or ())[number]
    rows = next((evidence.slice_ids for evidence in finding.evidence if evidence.slice_ids), ())
    lines = [html.P([html.Strong(f"{label.capitalize()}: "), text]) for label, text in advice.lines()]
    if rows:
        lines.append(html.P(dcc.Link("Show it in the timeline", href=view.link("timeline", selected=rows[0]))))
    return html.Article(
        [html.H3([html.Span(advice.severity, className="severity"), f" {advice.title}"]), *lines],
        className=f"finding {advice.severity}",
    )
