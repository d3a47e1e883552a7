"""Prometheus and OpenMetrics, read by prometheus_client's parsers."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import profsuite
from profsuite.exporters.names import printable
from profsuite.trace.model import Trace

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


def read_prometheus(file: Path) -> list[Any]:
    parser = pytest.importorskip("prometheus_client.parser", reason="prometheus_client is not installed")
    return list(parser.text_string_to_metric_families(file.read_text(encoding="utf-8")))


def read_openmetrics(file: Path) -> list[Any]:
    parser = pytest.importorskip("prometheus_client.openmetrics.parser", reason="prometheus_client is not installed")
    return list(parser.text_string_to_metric_families(file.read_text(encoding="utf-8")))


READERS: dict[str, Callable[[Path], list[Any]]] = {"prom": read_prometheus, "openmetrics": read_openmetrics}


def samples(families: list[Any]) -> Samples:
    found: Samples = {}
    for family in families:
        for one in family.samples:
            key = one.name, frozenset(one.labels.items())
            assert key not in found
            found[key] = float(one.value)
    return found


def pick(found: Samples, name: str, **labels: str) -> float:
    (value,) = [v for (n, ls), v in found.items() if n == name and set(labels.items()) <= ls]
    return value


@pytest.mark.parametrize("ending", READERS)
def test_by_hand(trace: Trace, hostile_name: str, tmp_path: Path, ending: str) -> None:
    families = READERS[ending](profsuite.export(trace, tmp_path / f"job.{ending}"))
    found = samples(families)
    gpu = {"rank": "0", "device": "0"}
    assert pick(found, "profsuite_step_seconds", rank="0", statistic="mean") == 0.0009
    assert pick(found, "profsuite_steps", rank="0") == 2
    # The device works from 1060 to 3005 us: 605 compute, 160 of the communication are not hidden by it.
    assert pick(found, "profsuite_device_window_seconds", **gpu) == 0.001945
    parts = {p: pick(found, "profsuite_device_seconds", **gpu, part=p) for p in ("compute", "exposed_comm", "idle")}
    assert parts == {"compute": 0.000605, "exposed_comm": 0.00016, "idle": 0.00118}
    assert pick(found, "profsuite_communication_seconds", **gpu, kind="overlapped") == 0.00004
    assert pick(found, "profsuite_device_busy_ratio", **gpu) == 765 / 1945
    assert pick(found, "profsuite_memory_peak_bytes", device="cuda:0", pool="allocated") == 2048
    assert pick(found, "profsuite_counter_ratio", series="gpu_pct", statistic="mean") == pytest.approx(0.405)
    severities = {dict(ls)["severity"] for (n, ls) in found if n == "profsuite_findings"}
    assert severities == {"critical", "warning", "info"}
    # The hostile name is one label, as it is printed.
    assert pick(found, "profsuite_op_self_seconds", op=printable(hostile_name), on="host") == 0.00008
    assert pick(found, "profsuite_recording_info", backend="nccl", world_size="2") == 1


def test_openmetrics_names_its_units(trace: Trace, tmp_path: Path) -> None:
    file = profsuite.export(trace, tmp_path / "job.openmetrics")
    families = read_openmetrics(file)
    for family in families:
        assert not family.unit or family.name.endswith(f"_{family.unit}")
    assert {family.unit for family in families} >= {"seconds", "bytes", "ratio"}
    assert {family.type for family in families} == {"gauge", "info"}
    assert file.read_text(encoding="utf-8").endswith("# EOF\n")


@pytest.mark.parametrize("ending", READERS)
def test_ranks_share_families(path: Path, tmp_path: Path, ending: str) -> None:
    other = tmp_path / "other.json"
    document = json.loads(path.read_text(encoding="utf-8"))
    document["distributedInfo"]["rank"] = 1
    other.write_text(json.dumps(document), encoding="utf-8")
    families = READERS[ending](profsuite.export([path, other], tmp_path / f"job.{ending}"))
    assert len({family.name for family in families}) == len(families)
    found = samples(families)
    assert {dict(labels)["rank"] for _, labels in found} == {"0", "1"}


@pytest.mark.parametrize("ending", READERS)
def test_traces_of_one_rank_are_told_apart(path: Path, tmp_path: Path, ending: str) -> None:
    families = READERS[ending](profsuite.export([path, path], tmp_path / f"job.{ending}"))
    steps = {key: value for key, value in samples(families).items() if key[0] == "profsuite_steps"}
    assert sorted(dict(labels)["trace"] for _, labels in steps) == ["0", "1"]


def test_what_nobody_measured_is_not_there(
    make: Callable[..., Trace], piece: Callable[..., Any], tmp_path: Path
) -> None:
    trace = make([piece("cpu_op", "a", 0, 5)])
    names = {name for name, _ in samples(read_prometheus(profsuite.export(trace, tmp_path / "x.prom")))}
    assert "profsuite_findings" in names
    assert not [name for name in names if "device" in name or "memory" in name or "step" in name]
