"""Inputs other than torch's JSON: ``info``, ``analyze`` and ``convert`` take them, errors are one line and exit 2."""

from __future__ import annotations

import json
import sqlite3

import pytest
from click.testing import CliRunner

from profsuite.cli.app import app

STACKS = "main;train;forward 50\nmain;train 5\nmain;load 7\n"


def field(number, value):
    """A field of a protobuf message: a number below 128, or less than 128 bytes."""
    if isinstance(value, int):
        return bytes([number << 3, value])
    data = value if isinstance(value, bytes) else value.encode()
    return bytes([number << 3 | 2, len(data)]) + data


def space(device):
    """An XSpace: one plane, one line, one event of 90 ns."""
    line = field(1, 1) + field(2, "XLA Ops") + field(4, field(1, 1) + field(2, 0) + b"\x18\x90\xbf\x05")
    name = field(4, field(1, 1) + field(2, field(1, 1) + field(2, "fusion.1")))
    return field(1, field(2, device) + field(3, line) + name)


def invoke(*words):
    return CliRunner().invoke(app, [str(word) for word in words], prog_name="profsuite")


@pytest.fixture(params=["stacks.collapsed", "host.xplane.pb"])
def path(tmp_path, request):
    path = tmp_path / request.param
    path.write_bytes(STACKS.encode() if request.param.endswith("collapsed") else space("/device:TPU:0"))
    return path


def test_info_analyze_and_convert(path, tmp_path):
    (facts,) = json.loads(invoke("info", path, "--format", "json").output)
    assert facts["reader"] == ("xspace" if path.suffix == ".pb" else "collapsed")
    answer = invoke("analyze", path, "--format", "json")
    assert answer.exit_code == 0
    assert json.loads(answer.output)["trace"]["num_slices"] == (1 if path.suffix == ".pb" else 4)
    for ending in (".json", ".pftrace", ".sqlite"):
        assert invoke("convert", path, "-o", tmp_path / f"out{ending}").exit_code == 0
    (again,) = json.loads(invoke("info", tmp_path / "out.json", "--format", "json").output)
    assert again["num_events"] >= 1


def test_device_time_of_a_plane(tmp_path):
    (tmp_path / "host.xplane.pb").write_bytes(space("/device:TPU:0"))
    report = json.loads(invoke("analyze", tmp_path, "--format", "json").output)
    (device,) = report["breakdown"]
    assert (device["device"], device["shares"]["compute_ns"], device["shares"]["idle_ns"]) == (0, 90, 0)


def test_nsight_systems_is_named(tmp_path):
    path = tmp_path / "report.sqlite"
    base = sqlite3.connect(path)
    base.execute("CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER)")
    base.close()
    answer = invoke("analyze", path)
    assert answer.exit_code == 2
    assert answer.stderr.splitlines() == [
        f"profsuite: {path}: is an SQLite database (Nsight Systems?); docs/inputs.md lists what profsuite reads"
    ]


@pytest.mark.parametrize(
    ("name", "data", "why"),
    [
        ("x.xplane.pb", b"\n\xff\x01", "is a binary protobuf, but neither XLA's planes"),
        ("x.collapsed", b"a 999999999999999999\n" * 4, "add up to more than"),
        ("x.xplane.pb", b"", "is empty"),
    ],
)
def test_what_cannot_be_read_is_one_line(tmp_path, name, data, why):
    path = tmp_path / name
    path.write_bytes(data)
    answer = invoke("info", path)
    assert answer.exit_code == 2
    (line,) = answer.stderr.splitlines()
    assert line.startswith(f"profsuite: {path}: ")
    assert why in line


def test_several_runs_of_jax(tmp_path):
    for run in ("2026_01_02_03_04_05", "2026_01_02_04_00_00"):
        folder = tmp_path / "plugins" / "profile" / run
        folder.mkdir(parents=True)
        (folder / "host.xplane.pb").write_bytes(space("/device:TPU:0"))
    answer = invoke("analyze", tmp_path)
    assert answer.exit_code == 2
    assert "holds 2 profiles of XLA" in answer.stderr
    assert len(answer.stderr.splitlines()) == 1
