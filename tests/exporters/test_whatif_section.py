"""The what-if section: what is a total and what is a step's, and what an earlier launch of collectives gives."""

from __future__ import annotations

from msgspec.structs import replace

from profsuite.analyzers.whatif.hiding import LatencyHiding
from profsuite.analyzers.whatif.path import CriticalPath, PathPart
from profsuite.analyzers.whatif.replay import WhatIf
from profsuite.analyzers.whatif.scenarios import EARLY_COMM, Replays
from profsuite.exporters.figures.work import path_figure, saving_figure
from profsuite.exporters.sections.whatif import whatif_sections

US = 1_000


def outcome(name, saving_us, *, steps=5, removed_us=0):
    measured, saving = 20_000 * US, saving_us * US
    return WhatIf(
        name=name,
        measured_ns=measured,
        predicted_ns=measured - saving,
        saving_ns=saving,
        num_steps=steps,
        measured_ms_per_step=measured / steps / 1e6 if steps else None,
        predicted_ms_per_step=(measured - saving) / steps / 1e6 if steps else None,
        saving_ms_per_step=saving / steps / 1e6 if steps else None,
        device_removed_ns=removed_us * US,
    )


def replays(*scenarios, steps=5, hiding=None):
    part = PathPart(cause="comm", total_ns=20_000 * US, path_pct=100.0)
    path = CriticalPath(
        start_ns=0,
        length_ns=20_000 * US,
        num_steps=steps,
        num_nodes=2,
        num_unexplained=0,
        replay_error_ns=0,
        device_pct=None,
        parts=(part,),
        top=(),
    )
    return Replays(length_ns=20_000 * US, path=path, hiding=hiding, scenarios=scenarios)


def hiding(exposed_us, hideable_us):
    return LatencyHiding(
        exposed_ns=exposed_us * US,
        remaining_ns=(exposed_us - hideable_us) * US,
        hideable_ns=hideable_us * US,
        num_collectives=8,
        num_known=8,
    )


def notes(found):
    return " ".join(whatif_sections(found, None)[1].notes)


def test_what_is_covered_and_what_is_saved_are_told_apart():
    said = notes(replays(outcome(EARLY_COMM, 279), hiding=hiding(9450, 0)))
    assert "would have no more of that covered by compute; 9.450 ms would stay exposed" in said
    assert "that is why such a launch saves 279.0 µs" in said
    said = notes(replays(hiding=hiding(9450, 450)))
    assert "would have 450.0 µs more of that covered by compute; 9.000 ms would stay exposed" in said
    assert "that is why" not in said


def test_work_taken_off_that_saves_nothing_is_told():
    said = notes(replays(outcome("matrix multiplications twice as fast", 4195, removed_us=6314)))
    assert "kernels and copies take 6.314 ms less in all" in said
    assert "less in all" not in notes(replays(outcome("attention twice as fast", 4195, removed_us=4195)))


def test_columns_say_what_is_a_step_and_what_the_whole():
    table = whatif_sections(replays(outcome("no waits for input", 5000)), None)[1].blocks[0]
    cells = dict(zip([column.title for column in table.columns], table.rows[0], strict=True))
    assert cells == {
        "with": "no waits for input",
        "saves a step": "1.000 ms",
        "of it": "25.0 %",
        "saves in all": "5.000 ms",
        "takes in all": "15.00 ms",
    }


def test_figures_are_a_step_where_steps_are_known(report):
    known = replace(report, whatif=replays(outcome("no waits for input", 5000)))
    saved, path = saving_figure(known), path_figure(known)
    assert (saved.data[0]["x"], path.data[0]["x"]) == ([1.0], [4.0])
    for figure in (saved, path):
        assert figure.layout["xaxis"]["title"]["text"] == "ms a step (mean of 5)"
    whole = replace(report, whatif=replays(outcome("no waits for input", 5000, steps=0), steps=0))
    assert saving_figure(whole).data[0]["x"] == [5.0]
    assert saving_figure(whole).layout["xaxis"]["title"]["text"] == "ms, whole recording"
