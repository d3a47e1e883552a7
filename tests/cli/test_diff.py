"""``profsuite diff``."""

from __future__ import annotations

import csv
import io
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest

Run = Callable[..., "CompletedProcess[str]"]


@pytest.fixture
def slower(trace: Path, tmp_path: Path) -> Path:
    """The trace with kernels of 500 us instead of 400."""
    path = tmp_path / "slower.json"
    document = json.loads(trace.read_text())
    for event in document["traceEvents"]:
        if event["cat"] == "kernel":
            event["dur"] = 500
    path.write_text(json.dumps(document))
    return path


def test_the_names_that_the_command_line_knows_are_the_analyzers() -> None:
    from profsuite.analyzers.diff.ops import SORTS
    from profsuite.cli import diff as command

    assert command.SORTS == SORTS


def test_text(run: Run, trace: Path, slower: Path) -> None:
    done = run("diff", trace, slower)
    assert (done.returncode, done.stderr) == (0, "")
    assert re.search(r"^  aten::mm +1 +400\.0 µs +500\.0 µs +\+100\.0 µs +0 ns +\+25\.0 %  more$", done.stdout, re.M)
    assert re.search(r"^  compute +400\.0 µs +500\.0 µs +\+100\.0 µs", done.stdout, re.M)


@pytest.mark.parametrize("form", ["json", "csv", "html", "markdown"])
def test_other_formats_to_a_file(run: Run, trace: Path, slower: Path, tmp_path: Path, form: str) -> None:
    out = tmp_path / "out"
    done = run("diff", trace, slower, "--format", form, "--output", out)
    assert (done.returncode, done.stdout) == (0, "")
    assert re.fullmatch(rf"wrote {re.escape(str(out))} \([0-9.]+ k?M?B\)\n", done.stderr)
    assert "aten::mm" in out.read_text(encoding="utf-8")


def test_two_sets_of_steps_of_one_trace(run: Run, trace: Path) -> None:
    done = run("diff", trace, trace, "--steps", "1", "--steps-after", "2", "--format", "json")
    report = json.loads(done.stdout)
    assert (report["before"]["steps"], report["after"]["steps"]) == ([1], [2])
    assert report["ops"]["rows"][0]["device"]["judgement"] == "same"
    limited = run("diff", trace, trace, "--steps", "1", "--steps-after", "2", "--max-memory", "2GB", "--format", "json")
    assert json.loads(limited.stdout)["time"] == report["time"]
    done = run("diff", trace, trace, "--steps", "7")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "no whole step in 7:8" in done.stderr


def test_folders_of_ranks(run: Run, ranks: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    shutil.copytree(ranks, other)
    done = run("diff", ranks, other)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("2 ranks\n")
    (other / "rank_1.json").rename(other / "rank_5.json")
    text = (other / "rank_5.json").read_text().replace('"rank": 1', '"rank": 5')
    (other / "rank_5.json").write_text(text)
    report = json.loads(run("diff", ranks, other, "--format", "json").stdout)
    assert [each["after"]["rank"] for each in report["reports"]] == [0]
    assert sorted(each["rank"] for each in report["unmatched"]) == [1, 5]
    table = csv.DictReader(io.StringIO(run("diff", ranks, other, "--format", "csv").stdout))
    assert {row["rank"] for row in table if row["section"] != "unmatched"} == {"0"}
    table = csv.DictReader(io.StringIO(run("diff", ranks, other, "--format", "csv").stdout))
    assert {row["rank"] for row in table if row["section"] == "unmatched"} == {"1", "5"}
    assert run("diff", ranks, other, "--rank", "0").returncode == 0


def test_a_rank_that_cannot_be_read(run: Run, ranks: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    shutil.copytree(ranks, other)
    (other / "rank_1.json").write_bytes(b"garbage")
    done = run("diff", ranks, other)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "rank_1.json" in done.stderr
    assert done.stdout.startswith("1 rank\n")


def test_no_rank_in_common(run: Run, ranks: Path, trace: Path) -> None:
    done = run("diff", ranks, trace)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "no rank in common" in done.stderr


def test_one_that_is_not_there(run: Run, trace: Path, tmp_path: Path) -> None:
    done = run("diff", trace, tmp_path / "absent.json")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
