"""Critical path & what-if: what decides the step time, and sliders that replay the recording with changes."""

from __future__ import annotations

from typing import Any, Final

from dash import html

from profsuite.analyzers.whatif.edits import Edit
from profsuite.analyzers.whatif.replay import replay
from profsuite.dashboard.components import figure, name_column, note, number, section, table
from profsuite.dashboard.inputs import Slider, Toggle
from profsuite.dashboard.pages.view import View
from profsuite.dashboard.store import Session
from profsuite.exporters.figures.work import path_figure, saving_figure
from profsuite.exporters.sections.whatif import answer

ABOUT: Final = "critical-path-and-what-if"
SCALES: Final = {
    "gemm": "matrix multiplications",
    "attention": "attention",
    "conv": "convolutions",
    "comm": "communication",
    "memcpy": "copies",
    "python": "Python",
    "op": "op dispatch",
    "launch": "launch calls",
    "input": "waiting for input",
}
"""What the sliders scale, and what to call it."""
FLAGS: Final = {
    "no_sync": "the host never waits for the device",
    "graphs": "one graph launch a step",
    "early_comm": "collectives as early as their inputs",
}


def whatif(view: View) -> Any:
    """The page; app.py answers the sliders with ``outcome``."""
    replays = view.report.whatif
    if replays is None:
        return note("Nothing to replay: no host thread and no device work was recorded.")
    rows = [
        {
            "name": scenario.name,
            "predicted_ms": scenario.predicted_ns / 1e6,
            "saving_ms": scenario.saving_ns / 1e6,
            "saving_pct": 100 * scenario.saving_ns / scenario.measured_ns if scenario.measured_ns else None,
            "per_step_ms": scenario.saving_ms_per_step,
            "removed_ms": scenario.device_removed_ns / 1e6,
        }
        for scenario in replays.scenarios
    ]
    columns = [
        name_column("name", "with"),
        number("per_step_ms", "saves a step", "ms"),
        number("saving_pct", "of it", "%", digits=2),
        number("saving_ms", "saves in all", "ms", sort="desc"),
        number("predicted_ms", "takes in all", "ms"),
        number("removed_ms", "GPU work less in all", "ms"),
    ]
    sliders = [Slider({"scale": name}, label, 0, 2, 0.05, 1) for name, label in SCALES.items()]
    toggles = [Toggle({"flag": name}, label) for name, label in FLAGS.items()]
    return html.Div(
        [
            section(
                "Replay with changes",
                note("Each slider multiplies the time of one kind of work."),
                html.Div(sliders, className="sliders"),
                html.Div(toggles, className="toggles"),
                html.P(id="whatif-outcome", className="verdict", role="status"),
                about=ABOUT,
            ),
            html.Div(
                [
                    figure(path_figure(view.report), "Nothing is on the path.", about=ABOUT),
                    figure(saving_figure(view.report), "Nothing would be saved.", about=ABOUT),
                ],
                className="charts",
            ),
            section(
                "What removing each obstacle would save",
                table("whatif", columns, rows, "No single obstacle's removal would shorten this recording."),
                about=ABOUT,
            ),
        ]
    )


def _applies(session: Session, edit: Edit) -> bool:
    """Whether the recording holds what the edit changes."""
    return session.analysis.outcome(edit) is not None


def outcome(session: Session, scales: dict[str, float], flags: list[str]) -> str:
    """What a replay with these changes predicts, in a sentence; kinds of work that are not there change nothing."""
    graph = session.graph
    if graph is None:
        return "Nothing to replay."
    present = []
    for name, factor in scales.items():
        if factor == 1:
            continue
        if _applies(session, Edit(scales=((name, factor),))):
            present.append((name, factor))
    known = {flag: True for flag in flags if flag in FLAGS and _applies(session, Edit(scales=(), **{flag: True}))}
    edit = Edit(scales=tuple(present), **known)
    found = replay(session.analysis, graph, edit)
    return " ".join(answer(found, "these changes", session.analysis.steps.median_ns))
