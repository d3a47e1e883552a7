"""No exporter writes what was redacted: the formats of the registry, those to come as well, byte by byte."""

from __future__ import annotations

import gzip
import importlib.util
import json
import sqlite3
import zlib
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from profsuite.cli.app import app
from profsuite.exporters.export import write
from profsuite.exporters.formats import FORMATS, format_called
from profsuite.exporters.source import Source
from profsuite.trace.embedded import is_embedded, read_embedded
from profsuite.trace.model import Trace
from profsuite.trace.redaction.tables import redact

WHOLE = ("chrome", "perfetto", "parquet", "arrow", "csv", "sqlite", "duckdb")
"""Formats that hold everything: without redaction the search must find what was planted in them."""

EXTRAS = {"duckdb": "duckdb", "tensorboard": "tensorboard"}
"""What a format needs beyond profsuite."""

each_format = pytest.mark.parametrize("name", FORMATS)


def texts_of(path: Path) -> Iterator[bytes]:
    """Everything that a file, or the files of a folder, say: their names, their bytes as stored, and unpacked."""
    files = sorted(file for file in path.rglob("*") if file.is_file()) if path.is_dir() else [path]
    for file in files:
        yield str(file.relative_to(path.parent)).encode()
        data = file.read_bytes()
        yield data
        if data[:2] == b"\x1f\x8b":
            yield gzip.decompress(data)
        elif data[:4] == b"PAR1":
            yield from _arrow(pq.read_table(file))
        elif data[:6] == b"ARROW1":
            with pa.ipc.open_file(str(file)) as reader:
                yield from _arrow(reader.read_all())
        elif data[:6] == b"SQLite":
            with sqlite3.connect(file) as database:
                yield "\n".join(database.iterdump()).encode()
        elif file.suffix == ".duckdb":
            yield from _duckdb(file)
        elif is_embedded(data[:16]):
            raw = read_embedded(iter([data]))
            yield repr((raw.header, raw.tracks, [pool.to_pylist() for pool in raw.pools.values()])).encode()
        yield from _deflated(data)


def _arrow(table: pa.Table) -> Iterator[bytes]:
    """Values, and the dictionaries with words that no row has."""
    yield repr(table.schema.metadata).encode()
    for column in table.columns:
        for chunk in column.chunks:
            array: Any = chunk
            yield repr(
                array.dictionary.to_pylist() if isinstance(array, pa.DictionaryArray) else array.to_pylist()
            ).encode()


def _duckdb(file: Path) -> Iterator[bytes]:
    import duckdb

    with duckdb.connect(str(file), read_only=True) as database:
        for (name,) in database.execute("SELECT table_name FROM duckdb_tables()").fetchall():
            yield repr(database.execute(f'SELECT * FROM "{name}"').fetchall()).encode()


def _deflated(data: bytes) -> Iterator[bytes]:
    """Streams of zlib and gzip inside other files."""
    for mark, bits in ((b"\x1f\x8b\x08", 31), (b"\x78\x9c", 15), (b"\x78\xda", 15)):
        at = data.find(mark)
        while at >= 0:
            with suppress(zlib.error):
                yield zlib.decompressobj(bits).decompress(data[at:], 1 << 24)
            at = data.find(mark, at + 1)


def forms_of(needle: str) -> set[bytes]:
    """How a text may stand in a file: in UTF-8 and UTF-16, escaped for JSON, Python, HTML and URLs."""
    escaped = {needle, json.dumps(needle)[1:-1], repr(needle)[1:-1], quote(needle), quote(needle, safe="")}
    escaped |= {needle.replace("/", "\\/"), needle.replace("\\", "\\\\\\\\"), needle.replace("@", "&#64;")}
    utf8 = {form.encode() for form in escaped}
    return utf8 | {needle.encode("utf-16-le"), needle.encode("utf-16-be")}


def found_in(path: Path, needles: tuple[str, ...]) -> list[str]:
    """Those of the needles that an output holds, in whatever case."""
    said = [text.lower() for text in texts_of(path)]
    return [needle for needle in needles if any(form.lower() in text for form in forms_of(needle) for text in said)]


def needs_extra(name: str) -> None:
    if name in EXTRAS and importlib.util.find_spec(EXTRAS[name]) is None:
        pytest.skip(f"{EXTRAS[name]} is not installed")


@each_format
def test_nothing_planted_leaves_by_the_command(
    planted: Path, corpus: SimpleNamespace, tmp_path: Path, name: str
) -> None:
    needs_extra(name)
    target = tmp_path / "out" / f"job{format_called(name).suffix}"
    target.parent.mkdir()
    report = tmp_path / "report.json"
    arguments = ["convert", str(planted), "--to", name, "-o", str(target), "--redact", "--redact-report", str(report)]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.output
    assert target.exists()
    assert found_in(target, corpus.needles) == []
    assert found_in(report, corpus.needles) == []


@each_format
def test_nothing_planted_leaves_a_redacted_trace(
    planted_trace: Trace, corpus: SimpleNamespace, tmp_path: Path, name: str
) -> None:
    needs_extra(name)
    form = format_called(name)
    target = tmp_path / "out" / f"job{form.suffix}"
    target.parent.mkdir()
    write(form, Source([redact(planted_trace)]), target)
    assert found_in(target, corpus.needles) == []


@each_format
@pytest.mark.parametrize("sensitivity", ["high"])
def test_nor_at_the_highest_level(
    planted_trace: Trace, corpus: SimpleNamespace, tmp_path: Path, name: str, sensitivity: str
) -> None:
    needs_extra(name)
    form = format_called(name)
    target = tmp_path / "out" / f"job{form.suffix}"
    target.parent.mkdir()
    write(form, Source([redact(planted_trace, sensitivity)]), target)
    assert found_in(target, (*corpus.needles, "train_step", "trainer")) == []


@pytest.mark.parametrize("name", WHOLE)
def test_the_search_finds_what_is_there(
    planted_trace: Trace, corpus: SimpleNamespace, tmp_path: Path, name: str
) -> None:
    needs_extra(name)
    form = format_called(name)
    target = tmp_path / "out" / f"job{form.suffix}"
    target.parent.mkdir()
    write(form, Source([planted_trace]), target)
    assert found_in(target, corpus.needles) == list(corpus.needles)


@pytest.mark.parametrize("form", ["text", "json", "html", "markdown", "csv"])
def test_nothing_planted_leaves_a_report(planted: Path, corpus: SimpleNamespace, tmp_path: Path, form: str) -> None:
    target = tmp_path / "out" / "report"
    target.parent.mkdir()
    done = CliRunner().invoke(app, ["analyze", str(planted), "--redact", "--format", form, "-o", str(target)])
    assert done.exit_code == 0, done.output
    assert found_in(target, corpus.needles) == []


@pytest.mark.parametrize(
    "command",
    [
        ["diff", "IN", "IN", "--format", "json"],
        ["memory", "IN", "--format", "json"],
        ["whatif", "IN", "--format", "json"],
    ],
)
def test_nothing_planted_leaves_other_commands(planted: Path, corpus: SimpleNamespace, command: list[str]) -> None:
    done = CliRunner().invoke(app, [str(planted) if word == "IN" else word for word in command] + ["--redact"])
    assert done.exit_code == 0, done.output
    assert [needle for needle in corpus.needles if needle in done.stdout] == []


def test_ranks_in_one_file_share_pseudonyms(corpus: SimpleNamespace, tmp_path: Path) -> None:
    folder = tmp_path / "ranks"
    folder.mkdir()
    for rank in (0, 1):
        text = json.dumps(corpus.document(rank)).replace("gpu-hgx-0418", f"gpu-hgx-{rank + 500:04}")
        (folder / f"rank{rank}.json").write_text(text, encoding="utf-8")
    target = tmp_path / "all.json"
    done = CliRunner().invoke(app, ["convert", str(folder), "-o", str(target), "--redact"])
    assert done.exit_code == 0, done.output
    said = target.read_text(encoding="utf-8")
    assert found_in(target, (*corpus.needles, "hgx-0500", "hgx-0501")) == []
    names = {event["name"] for event in json.loads(said)["traceEvents"] if event["name"].startswith("node host-")}
    assert len({name.split(",")[0] for name in names}) == 2, "two hosts stay two"
    assert "rank 0: " in said
    assert "rank 1: " in said
