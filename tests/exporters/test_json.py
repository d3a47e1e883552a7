"""The report as JSON."""

from __future__ import annotations

import json

import jsonschema
import msgspec
import pytest

from profsuite.analyzers.report import REPORT_VERSION, Report
from profsuite.exporters import json as json_exporter


@pytest.fixture(scope="module")
def validator() -> jsonschema.Draft202012Validator:
    return jsonschema.Draft202012Validator(json_exporter.schema())


def test_one_report(report: Report, bare: Report, validator: jsonschema.Draft202012Validator) -> None:
    for each in (report, bare):
        value = json.loads(json_exporter.render(each))
        validator.validate(value)
        assert value["schema_version"] == REPORT_VERSION
        assert msgspec.json.decode(json_exporter.render(each), type=Report) == each


def test_several_reports(report: Report, bare: Report, validator: jsonschema.Draft202012Validator) -> None:
    value = json.loads(json_exporter.render_ranks([report, bare]))
    validator.validate(value)
    assert value["schema_version"] == REPORT_VERSION
    assert [each["rank"] for each in value["reports"]] == [0, None]


def test_absent_is_null_and_not_left_out(bare: Report) -> None:
    value = json.loads(json_exporter.render(bare))
    assert set(value) == set(Report.__struct_fields__)
    assert value["ops"] is None


def test_no_control_character_is_written_raw(report: Report) -> None:
    text = json_exporter.render(report)
    assert not [c for c in text if ord(c) < 32 and c != "\n"]


def test_the_schema_refuses_what_is_no_report(validator: jsonschema.Draft202012Validator) -> None:
    with pytest.raises(jsonschema.ValidationError):
        validator.validate({"schema_version": "1"})
