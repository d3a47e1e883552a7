"""The compile_event table: filled by the collector alone, stored with the others."""

import json

import numpy as np
import pytest

from profsuite.trace.assemble import assemble
from profsuite.trace.columns import strings
from profsuite.trace.model import Trace
from profsuite.trace.readers.fallback import read_chunks
from profsuite.trace.readers.fields import ARGS, NULL_INT64

EVENT = {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 1, "dur": 1}


@pytest.fixture
def trace():
    raw = read_chunks([json.dumps([EVENT]).encode()])
    assert not len(raw.groups["compile"]["ts"])
    raw.pools["misc"] = strings(["compile", "graph_break", "step", "call to print", "train.py", ""])
    group = raw.groups["compile"]
    for column, values in {
        "ts": [1_000, 1_400],
        "dur": [500, NULL_INT64],
        "kind": [0, 1],
        "frame": [0, -1],
        "frame_compile": [1, NULL_INT64],
        "name": [2, 5],
        "reason": [-1, 3],
        "file": [4, 4],
        "line": [0, 17],
    }.items():
        group[column] = np.array(values, group[column].dtype)
    return assemble(raw, "trace.json", "fallback")


def test_absent_is_null(trace):
    assert trace.table("compile_event").to_pylist() == [
        {"ts": 1_000, "dur": 500, "kind": "compile", "frame_id": 0, "frame_compile_id": 1, "name": "step",
         "reason": None, "file": "train.py", "line": None},
        {"ts": 1_400, "dur": None, "kind": "graph_break", "frame_id": None, "frame_compile_id": None, "name": None,
         "reason": "call to print", "file": "train.py", "line": 17},
    ]  # fmt: skip


def test_a_run_folder_keeps_it(trace, tmp_path):
    again = Trace.open(trace.save(tmp_path / "run"))
    assert again.table("compile_event").to_pylist() == trace.table("compile_event").to_pylist()


def test_no_key_of_a_json_trace_fills_it():
    assert not [key for key, group, _, _ in ARGS if group == "compile"]
