"""``profsuite info``, ``convert`` and ``query``: the tables behind a report."""

from __future__ import annotations

import csv
import gzip
import io
import json
import sys
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest
from pyarrow import parquet

import profsuite
from profsuite.trace.schema import TABLES

Run = Callable[..., "CompletedProcess[str]"]


def test_info(run: Run, trace: Path) -> None:
    done = run("info", trace)
    assert done.returncode == 0
    assert "events      10\n" in done.stdout
    assert "span        2.000 ms\n" in done.stdout
    assert "          10  slice\n" in done.stdout
    assert "           2  kernel\n" in done.stdout


def test_info_tells_what_a_file_takes_packed_and_unpacked(run: Run, trace: Path, tmp_path: Path) -> None:
    data = trace.read_bytes() + b" " * 10_000
    plain, packed = tmp_path / "plain.json", tmp_path / "packed.json.gz"
    plain.write_bytes(data)
    packed.write_bytes(gzip.compress(data))
    assert f"size        {len(data) / 1000:.1f} kB\n" in run("info", plain).stdout
    stored = packed.stat().st_size
    assert stored < 1000
    assert f"size        {stored} B, {len(data) / 1000:.1f} kB unpacked\n" in run("info", packed).stdout
    found = [json.loads(run("info", path, "--format", "json").stdout)[0] for path in (plain, packed)]
    assert [(info["stored_bytes"], info["num_bytes"]) for info in found] == [(None, len(data)), (stored, len(data))]


def test_info_does_not_count_what_a_file_lacks(run: Run, trace: Path, faulty: Path) -> None:
    health = run("info", trace).stdout.partition("\nhealth\n")[2]
    assert "              no_rank: " in health
    assert "           1  dropped (first at byte" in run("info", faulty).stdout


def test_info_as_json(run: Run, ranks: Path) -> None:
    found = json.loads(run("info", ranks, "--format", "json").stdout)
    assert [info["rank"] for info in found] == [0, 1]
    assert found[0]["span_ns"] == 2_000_000
    assert found[0]["categories"] == {"user_annotation": 2, "cpu_op": 2, "cuda_runtime": 4, "kernel": 2}
    assert set(found[0]["rows"]) == {table.name for table in TABLES}


def test_info_of_hostile_names(run: Run, hostile: Path) -> None:
    assert run("info", hostile).stdout.replace("\n", "").isprintable()


def test_convert_to_parquet(run: Run, trace: Path, tmp_path: Path) -> None:
    done = run("convert", trace, "--output", tmp_path / "tables")
    assert done.returncode == 0
    assert {path.name for path in (tmp_path / "tables").iterdir()} == {f"{table.name}.parquet" for table in TABLES}
    slices = parquet.read_table(tmp_path / "tables" / "slice.parquet")
    assert slices.column("id").to_pylist() == list(range(10))
    assert slices.column("ts").to_pylist()[:2] == [1_000_000, 1_010_000]


def test_convert_to_arrow_opens_again(run: Run, trace: Path, tmp_path: Path) -> None:
    assert run("convert", trace, "-o", tmp_path / "folder", "--to", "arrow").returncode == 0
    assert profsuite.Trace.open(tmp_path / "folder").slices.num_rows == 10
    done = run("analyze", tmp_path / "folder")
    assert "gemm" in done.stdout


def test_convert_overwrites_only_by_force(run: Run, trace: Path, tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "notes.txt").write_text("keep me", encoding="utf-8")
    done = run("convert", trace, "-o", folder)
    assert done.returncode == 2
    assert "--force" in done.stderr
    assert run("convert", trace, "-o", folder, "--force").returncode == 0
    assert (folder / "notes.txt").exists()


def test_convert_of_several_ranks_asks_for_one(run: Run, ranks: Path, tmp_path: Path) -> None:
    done = run("convert", ranks, "-o", tmp_path / "out")
    assert done.returncode == 2
    assert "--rank (0, 1)" in done.stderr
    assert run("convert", ranks, "-o", tmp_path / "out", "--rank", "1").returncode == 0


def test_convert_by_the_output_s_ending(run: Run, trace: Path, tmp_path: Path) -> None:
    done = run("convert", trace, "-o", tmp_path / "x.json.gz")
    assert done.returncode == 0
    assert done.stderr == f"{tmp_path}/x.json.gz: 10 events\n"
    assert profsuite.load(tmp_path / "x.json.gz").slices.num_rows == 10
    assert run("convert", trace, "-o", tmp_path / "x.pftrace").returncode == 0
    assert profsuite.load(tmp_path / "x.pftrace").slices.num_rows == 10
    again = run("convert", trace, "-o", tmp_path / "x.pftrace")
    assert again.returncode == 2
    assert "exists" in again.stderr
    assert run("convert", trace, "-o", tmp_path / "x.pftrace", "--force").returncode == 0
    assert "names no format" in run("convert", trace, "-o", tmp_path / "x.doc").stderr


def test_convert_names_the_output_after_the_input(
    run: Run, trace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run("convert", trace, "--to", "perfetto").returncode == 0
    assert (tmp_path / "trace.pftrace").is_file()
    assert run("convert", trace).returncode == 0
    assert (tmp_path / "trace.parquet").is_dir()
    assert "exists" in run("convert", trace, "--to", "chrome").stderr


def test_convert_merges_ranks_where_the_format_can(run: Run, ranks: Path, tmp_path: Path) -> None:
    assert run("convert", ranks, "-o", tmp_path / "both.json").returncode == 0
    assert profsuite.load(tmp_path / "both.json").slices.num_rows == 20
    assert run("convert", ranks, "-o", tmp_path / "one.json", "--rank", "1").returncode == 0
    assert profsuite.load(tmp_path / "one.json").info.rank == 1
    merged = tmp_path / "both.json"
    for command in ("analyze", "whatif", "memory", "check --save-baseline x"):
        done = run(*command.split(), merged)
        assert (done.returncode, done.stdout) == (2, "")
        assert f"{merged}: holds several ranks, merged for viewers" in done.stderr


def test_convert_of_steps(run: Run, trace: Path, tmp_path: Path) -> None:
    assert run("convert", trace, "-o", tmp_path / "x.json", "--steps", "2").returncode == 0
    assert profsuite.load(tmp_path / "x.json").slices.num_rows == 5


def test_a_failed_export_leaves_nothing_behind(run: Run, tmp_path: Path) -> None:
    assert run("convert", tmp_path / "none.json", "-o", tmp_path / "out" / "x.json").returncode == 2
    assert not (tmp_path / "out").exists() or not list((tmp_path / "out").iterdir())


def test_the_formats_are_those_of_the_exporters() -> None:
    from profsuite.cli.convert import FORMATS
    from profsuite.exporters import formats

    assert tuple(formats.FORMATS) == FORMATS
    for name in FORMATS:
        assert formats.format_called(name).name == name


@pytest.fixture
def duckdb() -> object:
    return pytest.importorskip("duckdb", reason="needs the extra query")


@pytest.mark.usefixtures("duckdb")
def test_query(run: Run, trace: Path) -> None:
    sql = (
        "SELECT s.id, s.name, s.dur, o.name AS op FROM kernel k JOIN slice s ON s.id = k.slice_id "
        "JOIN slice o ON o.id = k.op_id ORDER BY s.id"
    )
    done = run("query", sql, trace)
    assert done.returncode == 0
    lines = done.stdout.splitlines()
    assert lines[0].split() == ["id", "name", "dur", "op"]
    assert lines[2].split() == ["3", "gemm", "400000", "aten::mm"]
    assert json.loads(run("query", sql, trace, "--format", "json").stdout)[0] == {
        "id": 3,
        "name": "gemm",
        "dur": 400000,
        "op": "aten::mm",
    }
    rows = list(csv.reader(io.StringIO(run("query", sql, trace, "--format", "csv").stdout)))
    assert rows[:2] == [["id", "name", "dur", "op"], ["3", "gemm", "400000", "aten::mm"]]


@pytest.mark.usefixtures("duckdb")
def test_query_knows_every_table(run: Run, trace: Path) -> None:
    for table in TABLES:
        done = run("query", f"SELECT count(*) n FROM {table.name.upper()}", trace)
        assert done.returncode == 0, done.stderr
    assert run("query", "SHOW TABLES", trace).stdout.count("\n") == len(TABLES) + 2


@pytest.mark.usefixtures("duckdb")
@pytest.mark.parametrize(
    ("sql", "words", "column"),
    [
        ("SELECT nonsense FROM slice", '"nonsense" not found', 7),
        ("SELEC 1", 'near "SELEC"', 0),
        ("SELECT * FROM kernels", "The tables are slice, track, op, kernel,", 14),
    ],
)
def test_a_wrong_query_says_what_and_where(run: Run, trace: Path, sql: str, words: str, column: int) -> None:
    done = run("query", sql, trace)
    assert done.returncode == 2
    what, place, mark = done.stderr.splitlines()
    assert what.startswith("profsuite: ")
    assert words in what
    assert "Did you mean" not in what
    assert place == f"LINE 1: {sql}"
    assert mark.index("^") == len("LINE 1: ") + column


@pytest.mark.usefixtures("duckdb")
def test_query_prints_names_safely_and_not_too_many(run: Run, hostile: Path) -> None:
    assert run("query", "SELECT name FROM slice", hostile).stdout.replace("\n", "").isprintable()
    done = run("query", "SELECT * FROM range(200)", hostile, "--limit", "5")
    assert done.stdout.count("\n") == 7
    assert "--limit 0" in done.stderr
    assert run("query", "SELECT * FROM range(200)", hostile, "--limit", "0").stdout.count("\n") == 202


def test_query_without_duckdb_says_how_to_get_it(run: Run, trace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "duckdb", None)
    done = run("query", "SELECT 1", trace)
    assert done.returncode == 2
    assert done.stderr == "profsuite: profsuite query needs DuckDB: pip install 'profsuite[query]'\n"


def test_a_folder_appears_only_when_it_is_complete(run: Run, trace: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken.json"
    broken.write_text("no trace", encoding="utf-8")
    target = tmp_path / "made" / "tables"
    assert run("convert", broken, "--to", "arrow", "--output", target).returncode == 2
    assert list(target.parent.iterdir()) == []
    assert run("convert", trace, "--to", "arrow", "--output", target).returncode == 0
    assert [path.name for path in target.parent.iterdir()] == ["tables"]
    assert profsuite.load(target).num_rows("slice") == profsuite.load(trace).num_rows("slice")
