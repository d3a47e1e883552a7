"""docs/reference says what the code says."""

from __future__ import annotations

import importlib.util
import json
from importlib.metadata import version
from pathlib import Path
from types import ModuleType

import pytest

from profsuite.trace.schema import TABLES

ROOT = Path(__file__).parent.parent


def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("docs_generate", ROOT / "docs" / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


PAGES = ["tables.md", "cli.md", "findings.md", "devices.md", "report.schema.json", "diff.schema.json"]


@pytest.mark.parametrize("page", PAGES)
def test_reference_page_is_what_make_docs_writes(page: str) -> None:
    package = {"cli.md": "click", "report.schema.json": "msgspec", "diff.schema.json": "msgspec"}.get(page)
    pins = (ROOT / "constraints.txt").read_text(encoding="utf-8").split()
    if package is not None and f"{package}=={version(package)}" not in pins:
        pytest.skip(f"another version of {package} words it differently")
    written = (ROOT / "docs" / "reference" / page).read_text(encoding="utf-8")
    assert written == generator().PAGES[page](), "run make docs"


def test_picture_is_what_make_docs_draws() -> None:
    if f"rich=={version('rich')}" not in (ROOT / "constraints.txt").read_text(encoding="utf-8").split():
        pytest.skip("another version of rich draws it differently")
    written = (ROOT / "docs" / "images" / "analyze.svg").read_text(encoding="utf-8")
    assert written == generator().picture(), "run make docs"


def test_every_page_is_compared() -> None:
    names = {path.name for path in (ROOT / "docs" / "reference").iterdir()}
    assert names == set(generator().PAGES) == set(PAGES)


def test_every_table_and_column_has_a_meaning() -> None:
    for table in TABLES:
        assert table.row.endswith("."), table.name
        for column in table.columns:
            assert column.doc.endswith((".", "…")), f"{table.name}.{column.name}"


def test_report_schema_is_a_schema() -> None:
    jsonschema = pytest.importorskip("jsonschema")
    for schema in (generator().report_schema(), generator().diff_schema()):
        jsonschema.Draft202012Validator.check_schema(json.loads(schema))
