"""XProf's own converter on our log folder."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import profsuite

PROGRAM = """
import glob, json, sys
from xprof.convert import raw_to_tool_data
files = glob.glob(sys.argv[1] + "/plugins/profile/*/*.xplane.pb")
data, _ = raw_to_tool_data.xspace_to_tool_data(files, sys.argv[2], {"use_saved_result": False})
print()
print(json.dumps(json.loads(data)))
"""


@pytest.mark.parametrize("name", ["h100_bert_small", "a100_nccl_metadata"])
def test_kernel_stats(name: str, ask: Any, real: Callable[[str], Path], tmp_path: Path) -> None:
    trace = profsuite.load(real(name), cache=False)
    found = ask("xprof", PROGRAM, profsuite.export(trace, tmp_path / "logs", "xprof"), "kernel_stats")
    column = {col["id"]: place for place, col in enumerate(found["cols"])}
    count, total = Counter[str](), Counter[str]()
    for row in found["rows"]:
        cells = {name: row["c"][place]["v"] for name, place in column.items()}
        count[cells["kernel_name"]] += int(cells["occurrences"])
        total[cells["kernel_name"]] += round(cells["total_duration_us"] * 1_000)
    slices = trace.slices.to_pylist()
    kernels = [slices[row["slice_id"]] for row in trace.kernels.to_pylist()]
    assert count == Counter(row["name"] for row in kernels if row["dur"])
    ours = Counter[str]()
    for row in kernels:
        ours[row["name"]] += row["dur"]
    assert len(ours) > 5
    assert total == pytest.approx({name: dur for name, dur in ours.items() if dur}, abs=1)


def test_trace_viewer(ask: Any, real: Callable[[str], Path], tmp_path: Path) -> None:
    trace = profsuite.load(real("h100_bert_small"), cache=False)
    found = ask("xprof", PROGRAM, profsuite.export(trace, tmp_path / "logs", "xprof"), "trace_viewer")["traceEvents"]
    threads = {(e["pid"], e["tid"]): e["args"]["name"] for e in found if e.get("name") == "thread_name"}
    assert "Stream #7" in threads.values()
    place = {name: where for where, name in threads.items()}
    start = min(row["ts"] for row in trace.slices.to_pylist())
    tracks = trace.tracks.to_pylist()
    for title in ("Stream #7", "thread 19392 (python3)"):
        theirs = [e for e in found if e.get("ph") == "X" and (e["pid"], e["tid"]) == place[title]]
        told = Counter((e["name"], round(e["dur"] * 1_000)) for e in theirs)
        ours = Counter(
            (row["name"], row["dur"])
            for row in trace.slices.to_pylist()
            if row["category"] != "gpu_user_annotation"
            and title in (tracks[row["track_id"]]["thread_name"], f"Stream #{tracks[row['track_id']]['stream']}")
        )
        assert sum((told - ours).values()) == 0
        assert sum((ours - told).values()) <= 0.01 * sum(ours.values())  # overlapping ones are on a line of their own
        first = min(theirs, key=lambda e: e["ts"])
        mine = min((row["ts"], row["name"]) for row in trace.slices.to_pylist() if row["name"] == first["name"])
        assert first["ts"] * 1_000 == pytest.approx(mine[0] - start, abs=1)


def test_steps(ask: Any, real: Callable[[str], Path], tmp_path: Path) -> None:
    """It joins device work to steps by correlation ids, as we do: a step spans what was launched in it."""
    trace = profsuite.load(real("v100_resnet50_workers0"), cache=False)
    found = ask("xprof", PROGRAM, profsuite.export(trace, tmp_path / "logs", "xprof"), "trace_viewer")["traceEvents"]
    (place,) = ((e["pid"], e["tid"]) for e in found if e.get("name") == "thread_name" and e["args"]["name"] == "Steps")
    told = {
        e["name"]: (round(e["ts"] * 1_000), round(e["dur"] * 1_000))
        for e in found
        if e.get("ph") == "X" and (e["pid"], e["tid"]) == place
    }
    rows = [row["slice_id"] for table in ("kernel", "memcpy") for row in trace.table(table).to_pylist()]
    ts, end, step = trace.array("slice", "ts")[rows], trace.end[rows], trace.array("slice", "step_id")[rows]
    start = int(trace.array("slice", "ts").min())
    assert told == {
        f"ProfilerStep#{number} {number}": (
            int(ts[step == i].min()) - start, int(end[step == i].max() - ts[step == i].min()),
        )
        for i, number in enumerate(trace.steps.column("number").to_pylist())
    }  # fmt: skip
