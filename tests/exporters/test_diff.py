"""A comparison and a check in every format; nothing from a trace is taken for markup."""

from __future__ import annotations

import csv
import io
import json
import re
from xml.etree import ElementTree

import jsonschema
import pytest

from profsuite.analyzers.check.baseline import baseline
from profsuite.analyzers.check.budget import Budget
from profsuite.analyzers.check.check import check, check_report
from profsuite.analyzers.diff.ranks import UnmatchedRank, ranks_diff
from profsuite.analyzers.diff.report import diff
from profsuite.exporters import html, markdown, text
from profsuite.exporters.diff import csv as diff_csv
from profsuite.exporters.diff import json as diff_json
from profsuite.exporters.diff.check import documents, junit
from profsuite.exporters.diff.document import document, ranks_document, signed
from profsuite.trace.load import load

HOSTILE = "\x1b[31mevil\x07 <script>alert(1)</script> [red]x[/red] \u202e`|@you\n=1+1"


def trace_of(folder, name, length, op="aten::mm"):
    """Two steps in which an op launches a kernel of so many us."""
    events = []
    for number in (0, 1):
        at = number * 1000
        common = {"ph": "X", "pid": 1, "tid": 1}
        events += [
            common | {"cat": "user_annotation", "name": f"ProfilerStep#{number}", "ts": at, "dur": 1000},
            common | {"cat": "cpu_op", "name": op, "ts": at + 10, "dur": 50},
            common | {"cat": "cuda_runtime", "name": "cudaLaunchKernel", "ts": at + 20, "dur": 9},
            {"ph": "X", "pid": 0, "tid": 7, "cat": "kernel", "name": name, "ts": at + 100, "dur": length},
        ]
        events[-2]["args"] = {"correlation": at}
        events[-1]["args"] = {"device": 0, "stream": 7, "correlation": at}
    path = folder / f"{length}.json"
    path.write_text(json.dumps({"traceEvents": events}))
    return load(path, cache=False)


@pytest.fixture
def hostile(tmp_path):
    """Two traces whose every name is hostile."""
    return trace_of(tmp_path, HOSTILE, 100, HOSTILE), trace_of(tmp_path, f"{HOSTILE}2", 150, HOSTILE)


@pytest.fixture
def report(tmp_path):
    return diff(trace_of(tmp_path, "gemm", 100), trace_of(tmp_path, "gemm", 150))


def test_text(report):
    out = text.render_documents([document(report)], width=100)
    assert "A step holds the GPU for 1.000 ms before and after, but made up differently." in out
    assert re.search(r"^  aten::mm +1 +100\.0 µs +150\.0 µs +\+50\.00 µs +0 ns +\+50\.0 %  more$", out, re.MULTILINE)
    assert re.search(r"^  sum +1\.000 ms +1\.000 ms +0 ", out, re.MULTILINE)


def test_json_is_valid_and_exact(report):
    found = json.loads(diff_json.render(report))
    validator = jsonschema.Draft202012Validator(diff_json.schema())
    validator.validate(found)
    assert found["ops"]["rows"][0]["device"]["before_ns"] == 200_000
    validator.validate(json.loads(diff_json.render(ranks_diff([report, report]))))


def test_csv_has_every_change(report):
    rows = list(csv.DictReader(io.StringIO(diff_csv.render([report]))))
    (op,) = [
        row for row in rows if row["section"] == "ops" and row["subject"] == "aten::mm" and row["metric"] == "device"
    ]
    assert (op["before_ns"], op["after_ns"], op["num_after"], op["judgement"]) == ("200000", "300000", "2", "more")
    assert {"time", "device", "parts", "host", "ops", "calls", "kernels"} <= {row["section"] for row in rows}


def test_hostile_names(hostile):
    report = diff(*hostile)
    plain = text.render_documents([document(report)])
    assert "\x1b" not in plain
    assert "\u202e" not in plain
    page = html.render_documents([document(report), document(report)])
    assert "<script" not in page
    marked = markdown.render_documents([document(report)])
    outside_code = re.sub(r"(?<!`)(`+)(?!`).*?(?<!`)\1(?!`)", "", marked)
    assert "<script" not in outside_code
    assert "@you" not in outside_code
    table = diff_csv.render([report])
    assert "\x1b" not in table
    assert len(list(csv.DictReader(io.StringIO(table)))) == table.count("\n") - 1


def test_hostile_names_in_a_check(hostile):
    budget = Budget(key="device_ms_per_step_max", op=HOSTILE, limit=0)
    result = check_report([check(baseline(hostile[1]), baseline(hostile[0]), [budget], 0.001)], 0.001)
    root = ElementTree.fromstring(junit(result))
    (suite,) = root.findall("testsuite")
    assert (suite.get("tests"), suite.get("failures")) == ("2", "1")
    assert suite.find("testcase/failure").get("type") == "exceeded"
    assert "<script" not in html.render_documents(documents(result))
    assert "\x1b" not in text.render_documents(documents(result))


def test_ranks(report):
    whole = ranks_diff([report, report], [UnmatchedRank(rank=3, source="rank_3.json", reason="rank 3 is not in after")])
    out = text.render_documents(ranks_document(whole))
    assert out.startswith("2 ranks\n")
    assert "rank_3.json: rank 3 is not in after" in out
    assert out.count("GPU time\n") == 1
    assert text.render_documents(ranks_document(whole, full=True)).count("GPU time\n") == 2
    assert ranks_diff([]).summary == "No rank could be compared."


def test_signed():
    assert [signed(value) for value in (0.0, 1.5, -0.0205)] == ["0", "+1.500 ms", "−20.50 µs"]
