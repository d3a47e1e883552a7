"""``profsuite analyze``."""

from __future__ import annotations

import csv
import gzip
import io
import json
import re
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import jsonschema
import pytest

from profsuite.cli import analyze as command

Run = Callable[..., "CompletedProcess[str]"]

SHARED = Path(__file__).parents[2].parent / "shared"


def test_the_names_that_the_command_line_knows_are_the_report_s() -> None:
    from importlib import import_module

    from profsuite.analyzers.report import SECTIONS

    assert command.SECTIONS == SECTIONS
    for form in command.FORMATS:
        module = import_module(f"profsuite.exporters.{form}")
        assert callable(module.render)
        assert callable(module.render_ranks)


def test_text(run: Run, trace: Path) -> None:
    done = run("analyze", trace)
    assert done.returncode == 0
    assert done.stderr == ""
    assert re.search(r"compute +57\.1 %", done.stdout)  # 2 x 400 us of 1,400 us
    assert re.search(r"gemm +2 +800\.0 µs", done.stdout)
    assert re.search(r"^Next: the .*\n  profsuite (query|analyze) ", done.stdout, flags=re.MULTILINE)


def test_json_is_exact_and_valid(run: Run, trace: Path) -> None:
    from profsuite.exporters.json import schema

    done = run("analyze", trace, "--format", "json")
    report = json.loads(done.stdout)
    jsonschema.Draft202012Validator(schema()).validate(report)
    shares = report["breakdown"][0]["shares"]
    assert (shares["window_ns"], shares["compute_ns"], shares["idle_ns"]) == (1_400_000, 800_000, 600_000)


@pytest.mark.parametrize("form", ["html", "markdown", "csv"])
def test_other_formats_to_a_file(run: Run, trace: Path, tmp_path: Path, form: str) -> None:
    out = tmp_path / "report"
    done = run("analyze", trace, "--format", form, "--output", out)
    assert (done.returncode, done.stdout) == (0, "")
    assert re.fullmatch(rf"wrote {re.escape(str(out))} \([0-9.]+ k?M?B\)\n", done.stderr)
    assert "gemm" in out.read_text(encoding="utf-8")


def test_only_and_top(run: Run, trace: Path) -> None:
    report = json.loads(run("analyze", trace, "--format", "json", "--only", "kernels,steps").stdout)
    assert report["kernels"] is not None
    assert report["steps"] is not None
    assert [report[name] for name in ("verdict", "findings", "breakdown", "ops", "host", "health")] == [None] * 6


def product(folder: Path) -> Path:
    """A product of 2 x 100 x 100 x 1,000 FLOPs whose kernel takes 40 us, on a GPU that no table has."""
    shapes = {"Input Dims": [[100, 1000], [1000, 100]], "Input type": ["float", "float"]}
    common = {"ph": "X", "pid": 1, "tid": 1}
    events = [
        {**common, "cat": "cpu_op", "name": "aten::mm", "ts": 0, "dur": 9, "args": shapes},
        {**common, "cat": "cuda_runtime", "name": "cudaLaunchKernel", "ts": 1, "dur": 2, "args": {"correlation": 1}},
        {
            **common,
            "pid": 0,
            "tid": 7,
            "cat": "kernel",
            "name": "gemm",
            "ts": 20,
            "dur": 40,
            "args": {"correlation": 1},
        },
    ]
    header = {"deviceProperties": [{"id": 0, "name": "GPU of one's own"}]}
    path = folder / "product.json"
    path.write_text(json.dumps(header | {"traceEvents": events}), encoding="utf-8")
    return path


def test_peaks_from_the_command_line(run: Run, tmp_path: Path) -> None:
    path = product(tmp_path)
    without = run("analyze", path, "--only", "roofline").stdout
    assert 'The peaks of "GPU of one\'s own" are not known' in without
    given = ("--only", "roofline", "--peak", "fp32=1e12,bandwidth=1e12")
    assert "50.0 %" in run("analyze", path, *given).stdout
    report = json.loads(run("analyze", path, "--format", "json", *given).stdout)
    assert report["roofline"]["ops"][0]["attained"]["pct_of_roofline"] == 50


@pytest.mark.parametrize("peak", ["bf16", "speed=1", "bf16=fast", "bf16=-1"])
def test_peaks_that_are_none(run: Run, trace: Path, peak: str) -> None:
    done = run("analyze", trace, "--peak", peak)
    assert done.returncode == 2
    assert "bf16=989e12" in done.stderr


def test_a_section_alone_still_draws_on_the_others(run: Run, trace: Path) -> None:
    out = run("analyze", trace, "--only", "steps").stdout
    assert "GPU busy" in out
    assert "GPU time" not in out
    assert "10 events, 2 steps, 2.000 ms" in run("analyze", trace, "--only", "ops").stdout


@pytest.mark.parametrize("packed", [False, True])
def test_stdin(run_process: Run, trace: Path, packed: bool) -> None:
    data = trace.read_bytes()
    done = run_process("analyze", "-", stdin=gzip.compress(data) if packed else data)
    assert done.returncode == 0
    assert "gemm" in done.stdout


def test_a_warning_on_stdin_names_no_file_to_look_into(run_process: Run, faulty: Path) -> None:
    done = run_process("analyze", "-", stdin=faulty.read_bytes())
    assert done.stderr == "profsuite: warning: -: 1 event could not be read\n"


def test_both_readers_say_the_same(run: Run, trace: Path) -> None:
    c = run("analyze", trace, "--reader", "auto", "--no-cache")
    python = run("analyze", trace, "--reader", "python", "--no-cache")
    assert c.stdout == python.stdout


def test_a_folder_of_ranks(run: Run, ranks: Path) -> None:
    done = run("analyze", ranks)
    assert done.returncode == 0
    assert done.stdout.startswith("2 ranks\n")
    assert done.stdout.count("Trace health") == 1
    assert "  Below: rank 0, whose findings cost most; --rank N shows another, --full all.\n" in done.stdout
    assert run("analyze", ranks, "--full").stdout.count("Trace health") == 2
    reports = json.loads(run("analyze", ranks, "--format", "json").stdout)["reports"]
    assert [report["rank"] for report in reports] == [0, 1]
    one = json.loads(run("analyze", ranks, "--rank", "1", "--format", "json").stdout)
    assert one["rank"] == 1
    table = csv.DictReader(io.StringIO(run("analyze", ranks, "--format", "csv").stdout))
    assert {row["rank"] for row in table if not row["section"].startswith("job")} == {"0", "1"}


def test_a_rank_that_is_not_there(run: Run, ranks: Path) -> None:
    done = run("analyze", ranks, "--rank", "7")
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "7" in done.stderr


@pytest.mark.parametrize("content", [b"", b'{"sche', b'{"schemaVersion": 1}', b"garbage"])
def test_one_unreadable_rank_does_not_hide_the_others(run: Run, ranks: Path, content: bytes) -> None:
    (ranks / "rank_2.json").write_bytes(content)
    done = run("analyze", ranks)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "rank_2.json" in done.stderr
    assert done.stdout.startswith("3 ranks, 1 of them unreadable\n")
    assert re.search(r"^  rank 2  unreadable \(is ", done.stdout, flags=re.MULTILINE)
    assert len(re.findall(r"^  rank [01]  \w", done.stdout, flags=re.MULTILINE)) == 2
    for form in ("html", "markdown", "csv"):
        assert "unreadable" in run("analyze", ranks, "--format", form).stdout
    found = json.loads(run("analyze", ranks, "--format", "json").stdout)
    assert [(each["rank"], each["source"]) for each in found["unreadable"]] == [(2, str(ranks / "rank_2.json"))]
    done = run("info", ranks)
    assert (done.returncode, done.stderr.count("\n"), done.stdout.count("world size")) == (2, 1, 2)


def test_only_on_a_folder(run: Run, ranks: Path) -> None:
    verdicts = run("analyze", ranks, "--only", "verdict").stdout
    assert len(re.findall(r"^  rank [01]  \w", verdicts, flags=re.MULTILINE)) == 2
    assert "Below" not in verdicts
    steps = run("analyze", ranks, "--only", "steps").stdout
    assert "GPU busy" in steps
    assert not re.search(r"^  rank [01]  ", steps, flags=re.MULTILINE)
    assert "GPU time" not in steps


def test_steps_and_time(run: Run, trace: Path) -> None:
    report = json.loads(run("analyze", trace, "--steps", "2", "--format", "json").stdout)
    assert report["breakdown"][0]["num_compute"] == 1
    assert report["trace"]["selection"]
    report = json.loads(run("analyze", trace, "--time", "0ms:1ms", "--format", "json").stdout)
    assert report["breakdown"][0]["num_compute"] == 1
    done = run("analyze", trace, "--steps", "90:95")
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1


def test_a_faulty_file_is_analysed_with_one_warning(run: Run, faulty: Path) -> None:
    done = run("analyze", faulty)
    assert done.returncode == 0
    told = f"warning: {faulty}: 1 event could not be read; profsuite info {faulty} says more"
    assert done.stderr == f"profsuite: {told}\n"
    assert "gemm" in done.stdout


def test_fail_on(run: Run, faulty: Path) -> None:
    findings = json.loads(run("analyze", faulty, "--format", "json").stdout)["findings"]
    severities = {finding["severity"] for finding in findings}
    assert run("analyze", faulty, "--fail-on", "critical").returncode == int("critical" in severities)
    assert run("analyze", faulty, "--fail-on", "warning").returncode == int(bool(severities & {"critical", "warning"}))
    assert severities & {"critical", "warning"}, "the trace is meant to have a finding"


def test_fail_on_looks_at_findings_that_only_does_not_show(run: Run, faulty: Path) -> None:
    done = run("analyze", faulty, "--format", "json", "--fail-on", "warning", "--only", "ops")
    assert done.returncode == 1
    assert json.loads(done.stdout)["findings"] is None
    assert "Findings" not in run("analyze", faulty, "--fail-on", "warning", "--only", "ops").stdout


@pytest.mark.parametrize("form", ["text", "markdown", "csv", "html"])
@pytest.mark.parametrize("args", [[], ["--color"]])
def test_hostile_names(run: Run, hostile: Path, form: str, args: list[str]) -> None:
    done = run("analyze", hostile, "--format", form, *args)
    assert done.returncode == 0
    plain = re.sub(r"\x1b\[[0-9;]*m", "", done.stdout) if args and form == "text" else done.stdout
    if form == "html":  # the only scripts are the page's own, which its policy names
        plain = re.sub(r"<script>.*?</script>", "", plain, flags=re.DOTALL)
        assert "<script>alert" not in done.stdout
    assert plain.replace("\n", "").isprintable()
    assert "\x1b[31mevil" not in done.stdout


def test_color(run: Run, trace: Path) -> None:
    assert "\x1b" not in run("analyze", trace).stdout
    assert "\x1b[" in run("analyze", trace, "--color").stdout
    assert "\x1b" not in run("analyze", trace, "--no-color").stdout


def test_a_terminal_gets_colour_unless_no_color_is_set(trace: Path, tmp_path: Path) -> None:
    pty = pytest.importorskip("pty", reason="needs a POSIX terminal")
    import os
    import subprocess
    import sys

    for env, colored in (({}, True), ({"NO_COLOR": "1"}, False)):
        master, slave = pty.openpty()
        base = {k: v for k, v in os.environ.items() if k != "NO_COLOR"} | {"TERM": "xterm", "HOME": str(tmp_path)}
        code = "from profsuite.cli import main; main()"
        process = subprocess.Popen([sys.executable, "-c", code, "analyze", str(trace)], stdout=slave, env=base | env)
        os.close(slave)
        out = b""
        while True:
            try:
                data = os.read(master, 65536)
            except OSError:
                break
            if not data:
                break
            out += data
        os.close(master)
        assert process.wait(60) == 0
        assert (b"\x1b[" in out) is colored


def test_a_terminal_that_knows_no_utf_8_is_no_reason_to_fail(run_process: Run, trace: Path) -> None:
    done = run_process("analyze", trace, env={"PYTHONIOENCODING": "ascii"})
    assert done.returncode == 0
    assert "gemm" in done.stdout


SAID = {
    "repaired": "broke JSON's rules",
    "dropped": "could not be read",
    "truncated": "the file breaks off",
    "empty": "holds no events",
    "negative_duration": "had a negative duration",
    "missing_duration": "had no duration",
    "unclosed": "began and did not end",
    "trailing_data": "data after the file's end was ignored",
    "unsupported": "of a phase that profsuite does not read",
}


def test_a_cut_file_is_said_to_break_off(run: Run, trace: Path, tmp_path: Path) -> None:
    cut = tmp_path / "cut.json"
    cut.write_bytes(trace.read_bytes()[:-100])
    done = run("analyze", cut, "--only", "verdict")
    assert done.returncode == 0
    assert done.stderr.startswith(f"profsuite: warning: {cut}: the file breaks off")
    assert done.stderr.endswith(f"; profsuite info {cut} says more\n")


@pytest.mark.skipif(not (SHARED / "inputs" / "broken").is_dir(), reason="the broken sample files are not here")
def test_broken_files_exit_0_with_one_warning(run: Run) -> None:
    folder = SHARED / "inputs" / "broken"
    expected = json.loads((folder / "expected.json").read_text(encoding="utf-8"))
    for name, facts in expected.items():
        done = run("analyze", folder / name, "--only", "verdict,health")
        assert done.returncode == 0, (name, done.stderr)
        assert done.stderr.count("\n") == (facts["health"] is not None), (name, done.stderr)
        if facts["health"] is not None:
            assert SAID[facts["health"]] in done.stderr, name


@pytest.mark.skipif(not (SHARED / "traces").is_dir(), reason="the recorded traces are not here")
@pytest.mark.parametrize(
    ("name", "words"),
    [("v100_resnet50_workers0", "input"), ("mi300_vllm_decode_graph", "%"), ("h100_bert_small", "CPU|host|Python")],
)
def test_verdicts_on_recorded_traces(run: Run, name: str, words: str) -> None:
    report = json.loads(run("analyze", SHARED / "traces" / f"{name}.json.gz", "--format", "json").stdout)
    assert re.search(words, report["verdict"])
