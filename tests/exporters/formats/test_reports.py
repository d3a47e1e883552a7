"""Reports as formats: what ``analyze`` writes, and JUnit."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import msgspec
import pytest

import profsuite
from profsuite.analyzers.findings import RULES
from profsuite.analyzers.report import Report
from profsuite.exporters import html, junit, markdown
from profsuite.exporters import json as json_report
from profsuite.exporters.names import printable
from profsuite.trace.model import Trace


@pytest.mark.parametrize(
    ("ending", "render"), [("md", markdown.render), ("report.json", json_report.render), ("html", html.render)]
)
def test_as_analyze_writes_it(trace: Trace, tmp_path: Path, ending: str, render: Callable[[Report], str]) -> None:
    file = profsuite.export(trace, tmp_path / f"job.{ending}")
    assert file.read_text(encoding="utf-8") == render(profsuite.analyze(trace))


def test_several_ranks(path: Path, trace: Trace, tmp_path: Path) -> None:
    found = json.loads(profsuite.export([path, trace], tmp_path / "job.report.json").read_text(encoding="utf-8"))
    assert len(found["reports"]) == 2
    suites = ElementTree.parse(profsuite.export([path, trace], tmp_path / "job.junit.xml")).getroot()
    assert [suite.get("name") for suite in suites] == ["profsuite, rank 0"] * 2


def test_junit(trace: Trace, hostile_name: str, tmp_path: Path) -> None:
    (suite,) = ElementTree.parse(profsuite.export(trace, tmp_path / "job.junit.xml")).getroot()
    found = profsuite.analyze(trace).findings or ()
    kinds = {rule.__name__ for rule in RULES} | {finding.id for finding in found}
    assert int(suite.get("tests", "")) == len(kinds) == len(suite)
    said = {case.get("name"): case for case in suite}
    assert {name for name, case in said.items() if len(case)} == {finding.id for finding in found}
    assert int(suite.get("failures", "")) == len({f.id for f in found if f.severity != "info"})


def test_junit_of_grave_findings_with_hostile_names(report: Report) -> None:
    (suite,) = ElementTree.fromstring(junit.render(report))
    assert suite.get("failures") == "1"
    loader = next(case for case in suite if case.get("name") == "input_bound")
    failure = loader.find("failure")
    assert failure is not None
    assert failure.get("type") == "critical"
    assert failure.get("message") == "The GPU waits for the data loader"
    assert "450.0 ms" in (failure.text or "")
    (finding, *_) = report.findings or ()
    evil = msgspec.structs.replace(finding, title='</failure>"\x1b<x a="&', severity="warning")
    evil_report: Any = msgspec.structs.replace(report, findings=(evil,), source='"<&\x00')
    (suite,) = ElementTree.fromstring(junit.render(evil_report))
    case = next(case for case in suite if case.get("name") == "input_bound")
    (failure,) = case
    assert failure.get("message") == printable(evil.title)
    assert case.get("classname") == printable(evil_report.source)


def test_every_format_is_reached_by_its_ending() -> None:
    from profsuite.cli.convert import FORMATS as NAMED
    from profsuite.exporters.formats import FORMATS, format_called, format_of

    assert tuple(FORMATS) == NAMED
    for name in FORMATS:
        form = format_called(name)
        assert form.name == name
        assert (form.suffix, form.compresses) == FORMATS[name][1:]
        assert form.carries.endswith(".")
        if form.suffix:
            assert format_of(f"folder/job{form.suffix}") is form
            if form.compresses:
                assert format_of(f"folder/job{form.suffix}.gz") is form


def test_a_format_is_found_without_importing_the_others() -> None:
    program = (
        "import sys; from profsuite.exporters.formats import format_of;"
        "assert format_of('x.prom').name == 'prometheus';"
        "assert not {'profsuite.exporters.perfetto', 'profsuite.exporters.html', 'sqlite3'} & set(sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
