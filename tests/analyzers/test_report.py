"""The report: complete, honest about what was not asked for, and as its JSON schema says."""

from __future__ import annotations

import json

import jsonschema
import msgspec
import pytest

from profsuite.analyzers.report import REPORT_VERSION, SECTIONS, Report, analyze


def test_every_section_of_a_small_job(job):
    job.header = {"deviceProperties": [{"id": 0, "name": "NVIDIA H100", "totalGlobalMem": 80, "numSms": 132}]}
    job.step(1, 0, 50).op("aten::mm", 0, 20).launch(5, 5, 1).kernel(20, 30, 1).memory(6, 8, 1)
    job.mark("inner (dynamo_timed)", 22, 5)
    report = analyze(job.trace())
    assert report.schema_version == REPORT_VERSION
    assert all(getattr(report, section) is not None for section in SECTIONS)
    assert (report.trace.num_slices, report.trace.duration_ns) == (5, 50_000)
    assert (report.trace.devices[0].name, report.trace.devices[0].num_sms) == ("NVIDIA H100", 132)


def test_only_what_was_asked_for(job):
    report = analyze(job.kernel(0, 10).trace(), only=["kernels"])
    assert [section for section in SECTIONS if getattr(report, section) is not None] == ["kernels"]


def test_a_path_is_not_a_trace():
    with pytest.raises(TypeError, match=r"profsuite\.load\(path\)"):
        analyze("trace.json")


def test_a_section_that_does_not_exist(job):
    with pytest.raises(ValueError, match="no section 'flames'"):
        analyze(job.kernel(0, 10).trace(), only=["flames"])


def test_a_list_needs_at_least_one_row(job):
    with pytest.raises(ValueError, match="at least 1"):
        analyze(job.kernel(0, 10).trace(), top=0)


@pytest.mark.parametrize(
    "name",
    [
        "v100_resnet50_workers0.json.gz",
        "mi300_vllm_decode_graph.json.gz",
        "ascend_rank0.json.gz",
        "a100_no_kernels.json",
    ],
)
def test_json_of_real_reports_is_as_the_schema_says(real_trace, name):
    encoded = msgspec.json.encode(analyze(real_trace(name)))
    jsonschema.validate(json.loads(encoded), msgspec.json.schema(Report))
    assert b"NaN" not in encoded
    assert msgspec.json.encode(msgspec.json.decode(encoded, type=Report)) == encoded


def test_an_empty_trace_has_a_report(job):
    report = analyze(job.trace())
    assert (report.breakdown, report.trace.duration_ns, report.findings) == ((), None, ())
