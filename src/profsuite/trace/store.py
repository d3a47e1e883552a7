"""The run folder: one Arrow IPC file a table and ``trace.json``, versioned."""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path
from typing import Any, cast

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from profsuite.errors import TraceError
from profsuite.trace.model import Trace, TraceInfo
from profsuite.trace.schema import ADDED, BY_NAME, SCHEMA_VERSION, TABLES, Table

MANIFEST = "trace.json"
FORMAT = "profsuite-run"
OLDEST = min(ADDED) - 1
"""The oldest schema version that is read."""


def is_run_folder(path: Path) -> bool:
    """Whether ``path`` is a folder with a manifest, and not one with a profiler's trace that has the same name."""
    manifest = path / MANIFEST
    if not manifest.is_file():
        return False
    if (path / f"{TABLES[0].name}.arrow").is_file():  # also where the manifest is damaged
        return True
    try:
        with manifest.open("rb") as stream:
            return FORMAT.encode() in stream.read(64)
    except OSError:
        return False


def save(trace: Trace, path: Path) -> Path:
    """Write ``trace`` as the run folder ``path`` (created; replaced if it is a run folder already).

    The folder appears under its name only when it is complete.  ``TraceError`` if it cannot be written,
    or if something else is there.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        building = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent))
        try:
            options = pa.ipc.IpcWriteOptions(compression="lz4")
            for spec in TABLES:
                table = trace.table(spec.name)
                sink = pa.OSFile(str(building / f"{spec.name}.arrow"), "wb")
                with sink, pa.ipc.new_file(sink, table.schema, options=options) as writer:
                    writer.write_table(table.unify_dictionaries().combine_chunks())
            manifest = {
                "format": FORMAT,
                "schema_version": SCHEMA_VERSION,
                "info": trace.info.to_json(),
                "rows": {spec.name: trace.num_rows(spec.name) for spec in TABLES},
            }
            (building / MANIFEST).write_text(json.dumps(manifest, indent=1), "utf-8")
            building.chmod(0o755)
            if is_run_folder(path):
                shutil.rmtree(path)
            building.replace(path)
        except BaseException:
            shutil.rmtree(building, ignore_errors=True)
            raise
    except OSError as error:
        raise TraceError(f"{path}: the run folder cannot be written: {error.strerror or error}") from error
    return path


def open_folder(path: Path) -> Trace:
    """Read a run folder; ``TraceError`` if it is none, is damaged, or of a schema version that is not read.

    Nothing in it is trusted: types, row counts, dictionary codes and row references are checked.
    """
    manifest = _manifest(path)
    lacks = _lacks(manifest["schema_version"])
    tables = {}
    for spec in TABLES:
        if lacks.get(spec.name) == ():
            tables[spec.name] = spec.arrow_schema().empty_table()
            continue
        name = f"{spec.name}.arrow"
        try:
            if not (path / name).is_file():  # opening a pipe would wait for ever
                raise FileNotFoundError("no such file")
            with pa.memory_map(str(path / name)) as source:
                table = pa.ipc.open_file(source).read_all()
            table.validate(full=True)
        except (OSError, pa.ArrowException) as error:
            raise TraceError(f"{path}: {name} is missing or damaged ({error}); convert the trace again") from error
        table = _with_nulls(table, spec, lacks.get(spec.name, ()))
        if not table.schema.equals(spec.arrow_schema()) or table.num_rows != manifest["rows"].get(spec.name):
            raise TraceError(f"{path}: {name} is not the table {spec.name!r} of this version; convert the trace again")
        tables[spec.name] = table
    _check_references(path, tables)
    try:
        return Trace(tables, msgspec.convert(manifest["info"], TraceInfo))
    except msgspec.ValidationError as error:
        raise TraceError(f"{path}: {MANIFEST} is damaged ({error}); convert the trace again") from error


def _manifest(path: Path) -> dict[str, Any]:
    try:
        manifest = json.loads((path / MANIFEST).read_text("utf-8"))
    except FileNotFoundError:
        raise TraceError(f"{path}: is no run folder: it has no {MANIFEST}") from None
    except (OSError, ValueError, RecursionError) as error:
        raise TraceError(f"{path}: {MANIFEST} cannot be read ({error})") from error
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise TraceError(f"{path}: {MANIFEST} is not that of a run folder")
    version = manifest.get("schema_version")
    if type(version) is not int or not OLDEST <= version <= SCHEMA_VERSION:
        raise TraceError(
            f"{path}: was written with schema version {version!r}, this profsuite reads versions {OLDEST} to "
            f"{SCHEMA_VERSION}; convert the trace again"
        )
    if not isinstance(manifest.get("info"), dict) or not isinstance(manifest.get("rows"), dict):
        raise TraceError(f"{path}: {MANIFEST} is damaged; convert the trace again")
    return manifest


def _lacks(version: int) -> dict[str, tuple[str, ...]]:
    """The columns of tables (none: the whole table) that a folder of this version does not have."""
    return {
        table: columns for since in range(version + 1, SCHEMA_VERSION + 1) for table, columns in ADDED[since].items()
    }


def _with_nulls(table: pa.Table, spec: Table, lacking: tuple[str, ...]) -> pa.Table:
    """``table`` with the columns that its version did not have, all null, where they belong."""
    for at, column in enumerate(spec.columns):
        if column.name in lacking and column.name not in table.schema.names:
            nothing = cast("Any", pa).nulls(table.num_rows, column.arrow_type())
            table = table.add_column(at, pa.field(column.name, column.arrow_type(), column.nullable), nothing)
    return table


def _check_references(path: Path, tables: dict[str, pa.Table]) -> None:
    """Row references must lie within their table."""
    for spec in TABLES:
        for column in spec.columns:
            if not column.unit.startswith("row of "):
                continue
            target = column.unit.removeprefix("row of ")
            bounds: Any = pc.min_max(tables[spec.name].column(column.name)).as_py()
            if bounds["max"] is not None and (bounds["min"] < 0 or bounds["max"] >= tables[target].num_rows):
                raise TraceError(f"{path}: {spec.name}.{column.name} points outside {target}; convert the trace again")


assert all(c.unit.removeprefix("row of ") in BY_NAME for t in TABLES for c in t.columns if c.unit.startswith("row of "))
