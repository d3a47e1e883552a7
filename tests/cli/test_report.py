"""``profsuite report``: the page that ``analyze --format html`` writes."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

from click.testing import CliRunner

from profsuite.cli.app import app

Run = Callable[..., "CompletedProcess[str]"]


def test_the_page_is_that_of_analyze(run: Run, trace: Path, tmp_path: Path) -> None:
    mine, its = tmp_path / "mine.html", tmp_path / "its.html"
    done = run("report", trace, "--html", mine)
    assert (done.returncode, done.stdout) == (0, "")
    assert re.fullmatch(rf"wrote {re.escape(str(mine))} \([0-9.]+ k?M?B\)\n", done.stderr)
    assert run("analyze", trace, "--format", "html", "--output", its).returncode == 0
    assert mine.read_bytes() == its.read_bytes()
    assert mine.read_text("utf-8").startswith("<!DOCTYPE html>")


def call(*args: object) -> tuple[int, str]:
    done = CliRunner().invoke(app, ["report", *map(str, args)])
    return done.exit_code, done.output


def test_options_reach_it(trace: Path) -> None:
    code, page = call(trace, "--only", "kernels", "--html", "-")
    assert code == 0
    assert "<h2>Top kernels</h2>" in page
    assert "<h2>Findings</h2>" not in page


def test_secrets_are_redacted_as_elsewhere(trace: Path, tmp_path: Path) -> None:
    text = trace.read_text("utf-8")
    named = tmp_path / "named.json"
    named.write_text(text.replace("aten::mm", "load from wilhelmina@example.com"), "utf-8")
    assert "wilhelmina@example.com" in named.read_text("utf-8")
    assert "wilhelmina@example.com" in call(named, "--html", "-")[1]
    code, page = call(named, "--html", "-", "--redact")
    assert code == 0
    assert "wilhelmina" not in page


def test_several_ranks(trace: Path, tmp_path: Path) -> None:
    for rank in (0, 1):
        (tmp_path / f"rank_{rank}.json").write_text(trace.read_text("utf-8"), "utf-8")
    code, page = call(tmp_path / "rank_0.json", tmp_path / "rank_1.json", "--jobs", 1, "--html", "-")
    assert code == 0
    assert page.count("<hr>") == 2


def test_it_needs_a_file(trace: Path) -> None:
    code, said = call(trace)
    assert code == 2
    assert "--html" in said
    assert call("no_such_file.json", "--html", "-")[0] == 2
