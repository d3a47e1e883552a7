"""``analyze`` on the ranks of a job, and ``hang``."""

from __future__ import annotations

import csv
import gzip
import io
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest

SAMPLE = Path(__file__).parents[2] / "sample_traces" / "gpu_ddp_slow_rank"
Run = Callable[..., Any]


def test_text_opens_with_the_jobs_verdict(run: Run) -> None:
    out = run("analyze", SAMPLE, env={"COLUMNS": "120"}).stdout
    lines = out.splitlines()
    assert lines[0] == "4 ranks"
    assert lines[2].startswith("Exposed communication takes 22 % of the ranks' time")
    order = [
        "Shares of each rank's window",
        "Findings",
        "Who waits for whom",
        "\nCollectives",
        "Process groups",
        "Below:",
    ]
    places = [out.index(part) for part in order]
    assert places == sorted(places)
    assert "The other ranks wait for rank 2" in out
    assert "16.86 ms  16.83 ms          16.35 ms" in out


def test_only_the_verdict(run: Run) -> None:
    out = run("analyze", SAMPLE, "--only", "verdict").stdout
    assert "most of it for rank 2" in " ".join(out.split())
    assert "Who waits for whom" not in out
    assert run("analyze", SAMPLE, "--only", "steps").stdout.count("Exposed communication takes") == 0


@pytest.mark.parametrize("form", ["html", "markdown"])
def test_pages_have_it_too(run: Run, form: str) -> None:
    out = run("analyze", SAMPLE, "--format", form).stdout
    for part in ("Who waits for whom", "wait for rank 2", "data parallel", "Exposed communication takes 22 %"):
        assert part in out


def test_json_has_a_job(run: Run) -> None:
    from profsuite.exporters.json import schema

    document = json.loads(run("analyze", SAMPLE, "--format", "json").stdout)
    jsonschema.Draft202012Validator(schema()).validate(document)
    job = document["job"]
    assert (job["schema_version"], job["straggler"], job["num_complete"]) == (1, 2, 6)
    assert job["wait_matrix_ns"][2] == [16857200, 16832075, 0, 16354026]
    assert json.loads(run("analyze", SAMPLE, "--format", "json", "--only", "steps").stdout)["job"] is None


def test_csv_has_the_jobs_numbers(run: Run) -> None:
    rows = list(csv.DictReader(io.StringIO(run("analyze", SAMPLE, "--format", "csv").stdout)))
    waits = {(r["subject"], r["rank"]): r["value"] for r in rows if r["section"] == "job_waits"}
    assert waits["for rank 2", "0"] == "16857200"
    assert len(waits) == 16
    caused = {r["rank"]: r["value"] for r in rows if r["section"] == "job_ranks" and r["metric"] == "caused_ns"}
    assert caused == {"0": "0", "1": "0", "2": "50043301", "3": "0"}


def test_several_processes_print_what_one_prints(run: Run) -> None:
    for form in ("text", "json"):
        one, two = (run("analyze", SAMPLE, "--format", form, "--jobs", n).stdout for n in ("1", "2"))
        assert one == two


def test_a_fabric(run: Run) -> None:
    job = json.loads(run("analyze", SAMPLE, "--format", "json", "--fabric", "nvlink3").stdout)["job"]
    (row,) = job["collectives"]
    assert row["fabric"] == "nvlink3"
    assert row["fabric_pct"] == pytest.approx(100 * row["bus_gb_per_s"] / 300)
    failed = run("analyze", SAMPLE, "--fabric", "rope")
    assert failed.returncode == 2
    assert "'rope' is no known fabric; choose from nvlink2" in failed.stderr


def test_a_finding_on_the_job_fails_the_build(run: Run, tmp_path: Path) -> None:
    assert run("analyze", SAMPLE, "--only", "verdict", "--fail-on", "warning").returncode == 1


def test_a_rank_that_cannot_be_read(run: Run, tmp_path: Path) -> None:
    for path in SAMPLE.glob("rank_[012].json.gz"):
        shutil.copy(path, tmp_path)
    (tmp_path / "rank_3.json").write_text("")
    done = run("analyze", tmp_path)
    assert done.returncode == 2
    assert "rank_3.json: is empty" in done.stderr
    assert done.stdout.startswith("4 ranks, 1 of them unreadable\n")
    assert "3 of 4 ranks were read: who is last is only known among them." in " ".join(done.stdout.split())


def test_files_that_are_no_ranks_of_one_job(run: Run, tmp_path: Path) -> None:
    one = SAMPLE / "rank_0.json.gz"
    out = json.loads(run("analyze", one, one, "--format", "json").stdout)
    assert out["job"] is None
    assert len(out["reports"]) == 2


HOSTILE = "\x1b[31mevil\x07 <script>alert(1)</script> [red]x[/red] \u202e`|"


@pytest.mark.parametrize("form", ["text", "html", "markdown", "csv"])
def test_hostile_names_of_groups(run: Run, tmp_path: Path, form: str) -> None:
    for rank in (0, 1):
        args = {"Collective name": "allreduce" if rank else HOSTILE, "Process Group Name": HOSTILE, "dtype": HOSTILE,
                "Process Group Description": HOSTILE, "Process Group Ranks": "[0, 1]", "Seq": 1}  # fmt: skip
        kernel = {"ph": "X", "cat": "kernel", "name": "ncclDevKernel_AllReduce", "pid": 0, "tid": 7, "ts": 5, "dur": 9}
        head = {"distributedInfo": {"rank": rank, "world_size": 2}}
        (tmp_path / f"rank_{rank}.json").write_text(json.dumps(head | {"traceEvents": [kernel | {"args": args}]}))
    done = run("analyze", tmp_path, "--format", form)
    assert done.returncode == 0
    assert "evil" in done.stdout
    for bad in ("\x1b", "\x07", "\u202e"):
        assert bad not in done.stdout
    if form == "html":  # Markdown has it as code
        assert "<script>alert" not in done.stdout


def dump(folder: Path, rank: int, *states: str) -> None:
    entries = [
        {"process_group": ["0", "default_pg"], "collective_seq_id": n, "profiling_name": "nccl:all_reduce",
         "state": state, "frames": [{"filename": "train.py", "line": n, "name": "step\x1b[31m"}]}
        for n, state in enumerate(states, 1)
    ]  # fmt: skip
    config = {"0": {"name": "0", "ranks": "[0, 1]"}}
    (folder / f"nccl_trace_rank_{rank}").write_text(json.dumps({"pg_config": config, "entries": entries}))


def test_hang(run: Run, tmp_path: Path) -> None:
    dump(tmp_path, 0, "completed", "started")
    dump(tmp_path, 1, "completed")
    out = run("hang", tmp_path).stdout
    assert out.startswith("Dumps of 2 ranks\n")
    assert "Rank 0 waits in all_reduce #2 of group default_pg" in out
    assert "Group default_pg: all_reduce #2" in out
    assert "\x1b" not in out
    report = json.loads(run("hang", tmp_path, "--format", "json").stdout)
    assert report["stuck"][0]["missing"] == [1]


def test_hang_with_what_is_no_dump(run: Run, trace: Path, tmp_path: Path) -> None:
    packed, text = tmp_path / "trace.json.gz", tmp_path / "notes"
    packed.write_bytes(gzip.compress(trace.read_bytes()))
    text.write_text("hello")
    for path, said in (
        (packed, f"is no dump of the flight recorder but compressed (gzip or zstd), as traces are; of a trace: "
         f"profsuite analyze {packed}"),
        (trace, f"is a trace, no dump of the flight recorder: profsuite analyze {trace}"),
        (text, "is no dump of the flight recorder: neither JSON nor a pickle"),
    ):  # fmt: skip
        done = run("hang", path)
        assert (done.returncode, done.stderr) == (2, f"profsuite: {path}: {said}\n")


def test_hang_with_the_wrong_files(run: Run, tmp_path: Path) -> None:
    dump(tmp_path, 0, "started")
    (tmp_path / "unnamed").write_text((tmp_path / "nccl_trace_rank_0").read_text())
    for paths, said in (
        ([tmp_path / "unnamed"], "neither the file nor its folder names the rank"),
        ([tmp_path / "nccl_trace_rank_0"] * 2, "rank 0 has two dumps"),
        ([tmp_path / "absent"], "no such file"),
    ):
        done = run("hang", *paths)
        assert (done.returncode, done.stderr.count("\n")) == (2, 1)
        assert said in done.stderr


@pytest.fixture
def runs(run: Run, trace: Path, tmp_path: Path) -> Path:
    """A folder of two recordings of one process each, as ``profsuite record`` names them."""
    for name in ("exp1", "exp2"):
        assert run("convert", trace, "--to", "arrow", "-o", tmp_path / "runs" / name / "rank_0").returncode == 0
    return tmp_path / "runs"


def test_separate_runs_are_named_by_their_folders(run: Run, runs: Path) -> None:
    done = run("analyze", runs)
    assert done.returncode == 0
    assert done.stdout.startswith("2 traces\n")
    named = {line.split()[0] for line in done.stdout.splitlines() if line.startswith("  runs/exp")}
    assert named == {"runs/exp1", "runs/exp2"}
    one, two = runs / "exp1", runs / "exp2"
    assert done.stderr == (
        f"profsuite: 2 separate runs ({one}, {two}), not the ranks of one job: profsuite analyze {one} takes one, "
        f"profsuite diff {one} {two} compares two\n"
    )
    assert json.loads(run("analyze", runs, "--format", "json").stdout)["job"] is None
    assert run("analyze", one).stderr == ""
    assert run("diff", one, two).returncode == 0


@pytest.mark.parametrize(
    "command",
    ["convert {} -o x.pftrace", "convert {} --to arrow", "check {} --save-baseline x", "diff {} {}", "whatif {}",
     "memory {}"],
)  # fmt: skip
def test_separate_runs_are_never_taken_for_a_job(run: Run, runs: Path, command: str) -> None:
    done = run(*(word.format(runs) for word in command.split()))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        f"profsuite: {runs}: holds 2 separate runs ({runs / 'exp1'}, {runs / 'exp2'}); name one of them\n"
    )


def test_ranks_in_a_folder_for_each_node_are_one_job(run: Run, tmp_path: Path) -> None:
    for rank, node in enumerate(("node0", "node0", "node1", "node1")):
        (tmp_path / node).mkdir(exist_ok=True)
        shutil.copy(SAMPLE / f"rank_{rank}.json.gz", tmp_path / node)
    done = run("analyze", tmp_path, "--format", "json")
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["job"]["num_ranks"] == 4


def test_runs_of_several_ranks_are_not_matched(run: Run, tmp_path: Path) -> None:
    for rank, folder in ((0, "a"), (1, "a"), (0, "b")):
        (tmp_path / folder).mkdir(exist_ok=True)
        shutil.copy(SAMPLE / f"rank_{rank}.json.gz", tmp_path / folder)
    (tmp_path / "b" / "rank_0.json.gz").write_bytes(b"")  # without it, ranks 0 and 1 of a would be told as the job
    done = run("analyze", tmp_path, "--format", "json")
    assert done.returncode == 2
    assert json.loads(done.stdout)["job"] is None
    assert "2 separate runs" in done.stderr
