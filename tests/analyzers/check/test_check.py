"""A recording against a baseline and budgets, by hand."""

from __future__ import annotations

import json

import pytest

from profsuite.analyzers.check.baseline import Baseline, baseline, is_baseline, read_baselines, write_baselines
from profsuite.analyzers.check.budget import Budget
from profsuite.analyzers.check.check import check
from profsuite.analyzers.report import analyze
from profsuite.errors import TraceError
from profsuite.exporters import json as json_exporter

MS = 1_000_000


def measured(*times, op=0, peak=None, **parts):
    """Steps of so many ms; ``op`` ms of aten::mm in each."""
    shares = {"compute": 0, "exposed_comm": 0, "exposed_memcpy": 0, "idle": 0} | parts
    return Baseline(
        source="trace.json",
        rank=0,
        per="step",
        on_device=True,
        time_ns=tuple(int(t * MS) for t in times),
        parts_ns={part: tuple(int(t * MS * pct / 100) for t in times) for part, pct in shares.items()},
        ops_device_ns={"aten::mm": tuple(int(op * MS) for _ in times)},
        peak_memory_bytes=peak,
    )


def outcomes(result):
    return [(row.name, row.outcome) for row in result.rows]


@pytest.mark.parametrize(
    ("before", "after", "outcome"),
    [
        ((100, 101, 99), (120, 121, 119), "regression"),
        ((100, 101, 99), (104, 105, 103), "ok"),  # beyond the noise, below 5 %
        ((100, 130, 70), (110, 140, 80), "ok"),  # 10 %, within the noise
        ((100, 101, 99), (80, 81, 79), "faster"),
        ((100,), (106,), "regression"),  # noise unknown: the threshold alone
        ((100,), (105,), "ok"),
    ],
)
def test_regressions(before, after, outcome):
    result = check(measured(*after), measured(*before))
    assert outcomes(result) == [("step time", outcome)]
    assert result.failed == (outcome == "regression")
    assert any("alone decides" in note for note in result.notes) == (len(before) == 1)


def test_the_row_of_a_regression():
    (row,) = check(measured(120, 120), measured(100, 100), threshold_pct=10).rows
    assert (row.value, row.baseline, row.unit) == (120.0, 100.0, "ms")
    assert row.limit == pytest.approx(110)
    assert row.message == "+20.000 ms (+20.0 %), noise ±0.000 ms: above the threshold of 10 %"


def test_what_explains_it():
    result = check(measured(120, 120, op=30, compute=50), measured(100, 100, op=10, compute=40))
    assert [(row.name, row.time.change_ms_per_step) for row in result.ops] == [("aten::mm", 20.0)]
    assert [(row.name, row.time.change_ms_per_step) for row in result.parts] == [("compute", 20.0)]


def test_peak_memory():
    rows = check(measured(1, peak=1_060), measured(1, peak=1_000)).rows
    assert [(row.name, row.outcome) for row in rows] == [("step time", "ok"), ("memory peak", "regression")]
    assert check(measured(1, peak=1_050), measured(1, peak=1_000)).rows[1].outcome == "ok"
    assert len(check(measured(1, peak=1_050), measured(1)).rows) == 1


def test_what_is_not_alike_is_not_compared():
    other = measured(100)
    cpu = Baseline(**{name: getattr(other, name) for name in other.__struct_fields__} | {"on_device": False})
    result = check(measured(100), cpu)
    assert outcomes(result) == [("step time", "missing")]
    assert result.failed


@pytest.mark.parametrize(
    ("key", "limit", "value", "outcome"),
    [
        ("step_ms_max", 10, 10, "ok"),
        ("step_ms_max", 9.9, 10, "exceeded"),
        ("exposed_comm_pct_max", 12, 12.5, "exceeded"),
        ("exposed_memcpy_pct_max", 5, 2.5, "ok"),
        ("idle_pct_max", 24.9, 25, "exceeded"),
        ("busy_pct_min", 75, 75, "ok"),
        ("compute_pct_min", 61, 60, "exceeded"),
        ("memory_peak_bytes_max", 1999, 2000, "exceeded"),
    ],
)
def test_budgets(key, limit, value, outcome):
    current = measured(8, 12, peak=2000, compute=60, exposed_comm=12.5, exposed_memcpy=2.5, idle=25)
    (row,) = check(current, None, [Budget(key=key, limit=limit)]).rows
    assert (row.name, row.value, row.outcome) == (key, value, outcome)


def test_budgets_of_ops():
    keys = [Budget(key="device_ms_per_step_max", op=op, limit=2) for op in ("aten::mm", "aten::absent")]
    rows = check(measured(8, 12, op=3), None, keys).rows
    assert [(row.value, row.outcome) for row in rows] == [(3.0, "exceeded"), (0.0, "ok")]


def test_a_budget_without_data_fails_and_says_what_records_it():
    result = check(measured(8), None, [Budget(key="memory_peak_bytes_max", limit=1)])
    assert outcomes(result) == [("memory_peak_bytes_max", "missing")]
    assert result.failed
    assert "profile_memory=True" in result.rows[0].message


def job_of(job, *lengths):
    for number, length in enumerate(lengths):
        start = number * 1000
        job.step(number, start, 1000).op("aten::mm", start + 10, 50).launch(start + 20, 10, number + 1)
        job.kernel(start + 100, length, number + 1).memcpy(start + 800, 10, 90 + number)
    return job


def test_what_is_kept_of_a_trace(job, tmp_path):
    found = baseline(job_of(job, 300, 200).trace())
    assert (found.per, found.on_device, found.time_ns) == ("step", True, (1_000_000, 1_000_000))
    assert found.parts_ns == {
        "compute": (300_000, 200_000),
        "exposed_comm": (0, 0),
        "exposed_memcpy": (10_000, 10_000),
        "idle": (690_000, 790_000),
    }
    assert found.ops_device_ns == {"aten::mm": (300_000, 200_000)}
    assert found.peak_memory_bytes is None

    path = tmp_path / "baseline.json"
    path.write_text(write_baselines((found,)))
    assert is_baseline(str(path))
    assert read_baselines(str(path)) == (found,)


def test_a_report_is_a_baseline_for_times(job, tmp_path):
    trace = job_of(job, 300, 200).trace()
    path = tmp_path / "report.json"
    path.write_text(json_exporter.render(analyze(trace)))
    assert is_baseline(str(path))
    (found,) = read_baselines(str(path))
    whole = baseline(trace)
    assert (found.time_ns, found.parts_ns, found.per) == (whole.time_ns, whole.parts_ns, whole.per)
    assert (found.ops_device_ns, found.peak_memory_bytes) == (None, None)
    path.write_text(json_exporter.render_ranks([analyze(trace), analyze(trace)]))
    assert len(read_baselines(str(path))) == 2
    path.write_text(json_exporter.render(analyze(trace, only=["kernels"])))
    with pytest.raises(TraceError, match="without a breakdown"):
        read_baselines(str(path))


def test_baselines_that_were_tampered_with(job, tmp_path):
    path = tmp_path / "baseline.json"
    good = json.loads(write_baselines((baseline(job_of(job, 300).trace()),)))

    def refused(**change):
        bad = json.loads(json.dumps(good))
        bad["ranks"][0] |= change.pop("rank", {})
        path.write_text(json.dumps(bad | change))
        with pytest.raises(TraceError) as error:
            read_baselines(str(path))
        return str(error.value)

    assert "version 99" in refused(version=99)
    assert "is no baseline" in refused(kind="something")
    assert "differ in length" in refused(rank={"time_ns": [1, 2]})
    assert "differ in length" in refused(rank={"time_ns": []})
    assert "times that are none" in refused(rank={"time_ns": [-1]})
    assert "neither a baseline nor a report" in refused(rank={"time_ns": ["x"]})


def test_a_trace_is_no_baseline(job):
    path = job_of(job, 300).trace().info.source
    assert not is_baseline(path)
    assert not is_baseline("-")


def test_nothing_to_check(job):
    with pytest.raises(TraceError, match="neither device work nor host slices"):
        baseline(job.trace())
