"""The report for the terminal."""

from __future__ import annotations

import re

import msgspec
import pytest
from rich.cells import cell_len

from profsuite.analyzers.base import Place
from profsuite.analyzers.report import Report
from profsuite.exporters import sections, text
from profsuite.exporters.columns import lines
from profsuite.exporters.document import Column, Name, Table
from profsuite.exporters.ranks import Unreadable, rank_lines


def test_opens_with_the_verdict_then_findings_then_tables(report: Report) -> None:
    out = text.render(report, width=100)
    order = [
        "The GPU is idle for 50.0 %",
        "Findings",
        "1. critical  The GPU waits for the data loader",
        "GPU time",
        "Host time",
    ]
    order += ["Steps", "Top ops", "Top kernels", "Trace health", "Next: the "]
    places = [out.index(words) for words in order]
    assert places == sorted(places)
    assert out.index("The GPU is idle") < 200


def test_numbers(report: Report) -> None:
    out = text.render(report, width=100)
    assert re.search(r"compute +40\.0 % +400\.0 ms +█+", out)
    assert re.search(r"waiting for input data +45\.0 % +450\.0 ms +░+", out)
    assert "idle for input 450.0 ms; share of the window 45.0 %; waits 2; launches 1,234 per step" in " ".join(
        out.split()
    )
    assert re.search(r"Kernel2<cutlass\S+ +10 +300\.0 ms +75\.0 % +30\.00 ms +62\.5 % +aten::mm", out)
    assert re.search("cost +450.0 ms in this recording", out)


@pytest.mark.parametrize("width", [60, 80, 100, 120])
def test_fits_the_terminal(report: Report, bare: Report, width: int) -> None:
    for out in (
        text.render(report, width=width),
        text.render(bare, width=width),
        text.render_ranks([report] * 3, width=width),
        text.render_ranks(
            [report] * 2, unreadable=[Unreadable(rank=9, source="w" * 99, error="is empty")], width=width
        ),
    ):
        for line in out.splitlines():
            assert cell_len(line) <= width, line


@pytest.mark.parametrize("color", [False, True])
def test_hostile_names_reach_the_terminal_as_plain_text(report: Report, color: bool) -> None:
    out = text.render(report, width=100, color=color)
    own = re.compile(r"\x1b\[[0-9;]*m")
    codes = set(own.findall(out))
    assert bool(codes) is color
    # 31 of the name in the fixture: it must be text, the escape before it gone
    assert "\ufffd[31mevil\ufffd[0m\ufffd" in own.sub("", out)
    rest = own.sub("", out).replace("\n", "")
    assert rest.isprintable()
    assert "[bold]" in rest


def test_a_saving_is_shown_only_where_it_was_replayed(report: Report) -> None:
    assert "saving" not in text.render(report)
    assert report.findings is not None
    finding = msgspec.structs.replace(report.findings[0], saving_ms_per_step=12.5)
    out = text.render(msgspec.structs.replace(report, findings=(finding,)))
    assert re.search("saving +12.50 ms a step, by replay", out)


def test_three_findings_are_shown_and_the_others_named(report: Report) -> None:
    assert report.findings is not None
    many = msgspec.structs.replace(report, findings=report.findings * 3)
    out = text.render(many)
    assert "  3. critical" in out
    assert "\n  4. " not in out
    assert "3 more findings: 4. Many short kernels, 5. The GPU waits" in out


def test_what_was_not_recorded_is_said_or_left_out(bare: Report) -> None:
    out = text.render(bare)
    assert "No device work in this trace; activities=" in out
    assert "ProfilerActivity.CUDA" in out
    assert "None." in out
    assert "Top ops" not in out
    assert "Steps" not in out


def test_a_selection_is_not_the_recording(report: Report, bare: Report) -> None:
    trace = msgspec.structs.replace(report.trace, selection="steps 3 to 5")
    assert re.search("cost +450.0 ms in this selection", text.render(msgspec.structs.replace(report, trace=trace)))
    trace = msgspec.structs.replace(bare.trace, selection="steps 3 to 5")
    out = text.render(msgspec.structs.replace(bare, trace=trace))
    assert "No device work in this selection." in out
    assert "ProfilerActivity" not in out


def test_more_than_one_device_gives_a_table(report: Report) -> None:
    assert report.breakdown is not None
    second = msgspec.structs.replace(report.breakdown[0], device=1)
    out = text.render(msgspec.structs.replace(report, breakdown=(*report.breakdown, second)), width=100)
    assert re.search(r"^ +1 +1\.000 s +50\.0 % +40\.0 % +8\.0 %", out, flags=re.MULTILINE)
    assert "Device 0 was idle for 500.0 ms" in out


def test_ranks(report: Report, bare: Report) -> None:
    ranks = [report, msgspec.structs.replace(report, rank=3), msgspec.structs.replace(bare, rank=4)]
    out = text.render_ranks(ranks, width=110)
    assert out.startswith("3 ranks\n")
    assert re.search(r"^ +3 +0 +500\.0 ms +1\.000 s +50\.0 %", out, flags=re.MULTILINE)
    assert "  rank 3  The GPU is idle for 50.0 % of the time, most of it waiting for input\n" in out
    assert out.count("Findings") == 1
    assert text.render_ranks(ranks, full=True).count("Findings") == 3


def test_the_rank_whose_findings_cost_most_is_shown(report: Report) -> None:
    assert report.findings is not None
    dear = msgspec.structs.replace(report.findings[0], cost_ns=10**12)
    out = text.render_ranks([report, msgspec.structs.replace(report, rank=5, findings=(dear,))])
    assert "Below: rank 5, whose findings cost most" in out
    assert "1,000.0 s in this recording" in out


def test_an_unreadable_rank_has_its_line(report: Report) -> None:
    gone = Unreadable(rank=3, source="runs/worker3.json.gz", error="is empty\x1b[2J")
    out = text.render_ranks([report, msgspec.structs.replace(report, rank=4)], unreadable=[gone], width=100)
    lines_of_ranks = re.findall(r"^  (rank \d)  (.{10})", out, flags=re.MULTILINE)
    assert lines_of_ranks == [("rank 0", "The GPU is"), ("rank 3", "unreadable"), ("rank 4", "The GPU is")]
    assert "\x1b" not in out


def test_traces_that_are_not_ranks_of_one_job_are_told_apart_by_file(report: Report) -> None:
    other = msgspec.structs.replace(report, source="runs/\x1b[2Jbefore.json")
    out = text.render_ranks([report, other], width=110)
    assert out.startswith("2 traces\n")
    assert re.search(r"^ +resnet\.json\.gz +0 +0 +500\.0 ms", out, flags=re.MULTILINE)
    assert "\ufffd[2Jbefore.json" in out
    assert text.render_ranks([report, msgspec.structs.replace(report, rank=1)]).startswith("2 ranks\n")


@pytest.mark.parametrize(
    ("sources", "names"),
    [
        (["runs/exp1/rank_0", "runs/exp2/rank_0"], ["runs/exp1", "runs/exp2"]),
        (["/data/runs/exp1/rank_0/", "/data/runs/exp2/rank_0"], ["runs/exp1", "runs/exp2"]),
        (["exp1/rank_0", "exp2/rank_0", "exp2/rank_1"], ["exp1/rank_0", "exp2/rank_0", "exp2/rank_1"]),
        (["runs/a/t.json", "runs/b/x/t.json"], ["runs/a/t.json", "runs/b/x/t.json"]),
        (["rank_0", "old/rank_0"], ["rank_0", "old"]),
        (["s3://bucket/a/t.json", "s3://bucket/b/t.json"], ["bucket/a/t.json", "bucket/b/t.json"]),
        (["runs/before.json", "after.json"], ["before.json", "after.json"]),
    ],
)
def test_files_of_one_name_are_told_apart_by_their_folders(
    report: Report, sources: list[str], names: list[str]
) -> None:
    lines_of = rank_lines([msgspec.structs.replace(report, source=source) for source in sources])
    assert [name for name, _ in lines_of] == names


@pytest.fixture
def with_duckdb(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sections, "find_spec", lambda name: name)


@pytest.fixture
def without_duckdb(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sections, "find_spec", lambda name: None)


@pytest.mark.usefixtures("without_duckdb")
def test_next_command_is_safe_to_paste(report: Report) -> None:
    out = text.render(msgspec.structs.replace(report, source="a b;rm -rf $HOME.json"))
    page = "  profsuite report 'a b;rm -rf $HOME.json' --html report.html\n"
    assert out.endswith(f"Next: the report as a web page\n{page}")


@pytest.mark.usefixtures("with_duckdb")
def test_next_shows_the_slices_behind_a_finding(report: Report) -> None:
    query = 'profsuite query "SELECT id, name, ts, dur FROM slice WHERE id IN (12, 40)"'
    assert text.render(report, width=120).endswith(f"Next: the slices behind finding 1\n  {query} {report.source}\n")
    assert text.render(report, width=80).endswith(f"\n  {query} \\\n    {report.source}\n")
    narrow = text.render(report, width=60).partition("Next: ")[2].partition("\n")[2]
    assert " ".join(narrow.replace("\\\n", "").split()) == f"{query} {report.source}"


@pytest.mark.usefixtures("with_duckdb")
def test_nothing_comes_next_where_no_file_holds_those_rows(report: Report) -> None:
    part = msgspec.structs.replace(report.trace, selection="steps 3 to 5")
    for each in (msgspec.structs.replace(report, source="-"), msgspec.structs.replace(report, trace=part)):
        assert "Next" not in text.render(each)


def test_columns_are_dropped_before_names_become_unreadable() -> None:
    columns = (Column("name", False), Column("runs"), Column("mean", optional=True), Column("by", False, optional=True))
    table = Table("", columns, ((Name("n" * 60), "10", "1.000 ms", Name("aten::mm")),))
    assert lines(table, 80)[0].split() == ["name", "runs", "mean", "by"]
    assert lines(table, 46)[0].split() == ["name", "runs", "mean"]
    assert lines(table, 30)[0].split() == ["name", "runs"]


def test_wide_characters_are_counted_as_two_columns() -> None:
    table = Table("", (Column("name", False), Column("n")), ((Name("行列" * 20), "1"), (Name("mm"), "2")))
    assert all(cell_len(line) <= 40 for line in lines(table, 40))


@pytest.mark.parametrize(
    ("thread", "said"),
    [("main thread", "main thread"), ("thread 7 (python)", "thread 7 (python)"), ("loader", "thread loader")],
)
def test_threads_are_called_threads_once(report: Report, thread: str, said: str) -> None:
    finding = msgspec.structs.replace(report.findings[0], where=Place(rank=3, thread=thread))
    assert f"where  rank 3, {said}\n" in text.render(msgspec.structs.replace(report, findings=(finding,)))


def test_steps_show_the_busiest_device_and_nothing_of_a_cut_step(report: Report) -> None:
    (device,) = report.breakdown or ()
    (step,) = device.steps
    idle = msgspec.structs.replace(device.shares, busy_ns=1)
    fewer = msgspec.structs.replace(step, shares=msgspec.structs.replace(step.shares, busy_pct=1.0))
    cut = msgspec.structs.replace(step, number=1, truncated=True)
    devices = (
        msgspec.structs.replace(device, shares=idle, steps=(fewer,)),
        msgspec.structs.replace(device, device=1, steps=(cut, step)),
    )
    assert report.steps is not None
    (table,) = sections.steps_section(report.steps, devices).blocks
    assert isinstance(table, Table)
    assert [row[:3] for row in table.rows] == [("1", "400.0 ms", ""), ("2", "500.0 ms", "50.0 %")]
