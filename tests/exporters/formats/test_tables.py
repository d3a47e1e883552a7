"""CSV, SQLite and DuckDB: every row of every table comes back, with its type and its nulls."""

from __future__ import annotations

import csv
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import profsuite
from profsuite.errors import MissingExtraError
from profsuite.exporters import csv_tables
from profsuite.exporters.export import export
from profsuite.trace.model import Trace
from profsuite.trace.schema import BY_NAME, TABLES


def rows(trace: Trace, name: str) -> list[tuple[Any, ...]]:
    """The rows of a table with their numbers, as Python has them."""
    columns = [trace.table(name).column(column.name).to_pylist() for column in BY_NAME[name].columns]
    return list(zip(range(trace.num_rows(name)), *columns, strict=True))


@pytest.fixture
def everything(trace: Trace) -> Iterator[Trace]:
    """The job; it has rows in the tables that matter."""
    for name in ("slice", "track", "op", "kernel", "memory_event", "counter", "metadata", "step", "health"):
        assert trace.num_rows(name), name
    return trace


def cells(file: Path) -> Iterator[list[str | None]]:
    """The cells of a file; unquoted nothing is null, which Python's own reader cannot tell before 3.12."""
    text = file.read_bytes().decode()
    row: list[str | None] = []
    at = 0
    while at < len(text):
        if text[at] == '"':
            end = at + 1
            while text[end] != '"' or text[end : end + 2] == '""':
                end += 2 if text[end] == '"' else 1
            row.append(text[at + 1 : end].replace('""', '"'))
            at = end + 1
        else:
            end = min(i for i in (text.find(",", at), text.find("\n", at)) if i >= 0)
            row.append(text[at:end] or None)
            at = end
        if text[at] == "\n":
            yield row
            row = []
        at += 1


def test_csv_comes_back(everything: Trace, tmp_path: Path) -> None:
    folder = export(everything, tmp_path / "tables", "csv")
    assert {file.name for file in folder.iterdir()} == {f"{table.name}.csv" for table in TABLES}
    read = {"int64": int, "int32": int, "float64": float, "bool": lambda text: text == "true", "text": str}
    for table in TABLES:
        head, *found = cells(folder / f"{table.name}.csv")
        assert head == ["id", *(column.name for column in table.columns)]
        kinds = ["int64", *(column.dtype for column in table.columns)]
        values = [
            tuple(
                None if cell is None else read[kind](cell.removeprefix("'") if kind == "text" else cell)
                for kind, cell in zip(kinds, row, strict=True)
            )
            for row in found
        ]
        assert values == rows(everything, table.name)


def test_csv_cells_are_no_formulas(trace: Trace, hostile_name: str, tmp_path: Path) -> None:
    folder = export(trace, tmp_path / "tables", "csv")
    with (folder / "slice.csv").open(encoding="utf-8", newline="") as file:
        names = [row["name"] for row in csv.DictReader(file)]
    assert f"'{hostile_name}" in names
    assert not [name for name in names if name.startswith(("=", "+", "-", "@", "\t", "\r"))]


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("=1+1", "'=1+1"), ("@SUM(A1)", "'@SUM(A1)"), ("-1+cmd", "'-1+cmd"), ("+a", "'+a"), ("-", "-"),
        ("-12", "-12"), ("-1.5", "-1.5"), ("'=1", "''=1"), ("a=b", "a=b"), ("", ""), ("\t=1", "'\t=1"), ("+-1", "'+-1"),
    ],
)  # fmt: skip
def test_guarded(text: str, written: str) -> None:
    import pyarrow as pa

    column = pa.array([text, None]).dictionary_encode()
    (guarded,) = csv_tables.guarded(pa.table([column], names=["x"])).columns
    assert guarded.to_pylist() == [written, None]


def test_sqlite_comes_back(everything: Trace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("profsuite.exporters.sqlite.BATCH_ROWS", 7)
    file = profsuite.export(everything, tmp_path / "job.sqlite")
    with closing(sqlite3.connect(file)) as database:
        for table in TABLES:
            assert database.execute(f'SELECT * FROM "{table.name}" ORDER BY id').fetchall() == rows(
                everything, table.name
            )
        assert database.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert database.execute("PRAGMA foreign_key_check").fetchall() == []
        kinds = {row[0] for row in database.execute("SELECT DISTINCT typeof(ts) FROM slice")}
        assert kinds == {"integer"}
        plan = database.execute("EXPLAIN QUERY PLAN SELECT * FROM kernel WHERE slice_id = 3").fetchall()
        assert "kernel_slice_id" in plan[0][-1]
        launched = database.execute(
            "SELECT s.name, l.name FROM kernel k JOIN slice s ON s.id = k.slice_id JOIN slice l ON l.id = k.launch_id"
        ).fetchall()
    assert launched.count(("gemm", "cudaLaunchKernel")) == 2


def test_duckdb_comes_back(everything: Trace, tmp_path: Path) -> None:
    duckdb = pytest.importorskip("duckdb", reason="needs the extra query")
    file = profsuite.export(everything, tmp_path / "job.duckdb")
    with duckdb.connect(str(file), read_only=True) as database:
        for table in TABLES:
            assert database.execute(f'SELECT * FROM "{table.name}" ORDER BY id').fetchall() == rows(
                everything, table.name
            )
        types = dict(
            database.execute(
                "SELECT column_name, data_type FROM duckdb_columns() WHERE table_name = 'kernel'"
            ).fetchall()
        )
        assert (types["slice_id"], types["occupancy_pct"], types["kind"]) == ("INTEGER", "DOUBLE", "VARCHAR")
        comment = "SELECT comment FROM duckdb_columns() WHERE table_name = 'slice' AND column_name = 'dur'"
        assert database.execute(comment).fetchall() == [("Duration, never negative. [ns]",)]


def test_without_duckdb(trace: Trace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "duckdb", None)
    with pytest.raises(MissingExtraError, match=r"profsuite\[query\]"):
        profsuite.export(trace, tmp_path / "job.duckdb")
    assert not (tmp_path / "job.duckdb").exists()
