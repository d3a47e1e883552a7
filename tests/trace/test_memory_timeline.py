"""torch's memory timelines: both forms, from a file and from torch."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from profsuite.errors import TraceError
from profsuite.trace.memory_timeline import TORCH_CATEGORIES, memory_kind, read_memory_timeline

TRACES = Path(__file__).parents[3] / "shared" / "traces"

RAW = [[-1, 1, 100, 0], [10, 2, 50, 4], [10, 2, 7, 7], [20, 3, -50, 4], [20, 3, 50, 5], [30, 4, -50, 5]]


def test_raw(tmp_path):
    path = tmp_path / "t.raw.json.gz"
    path.write_bytes(gzip.compress(json.dumps(RAW).encode()))
    made = read_memory_timeline(path)
    assert made.num_events == 6
    assert made.array("ts").tolist() == [10, 10, 20, 30]
    assert made.array("parameter").tolist() == [100] * 4
    assert made.array("activation").tolist() == [0, 50, 0, 0]
    assert made.array("gradient").tolist() == [0, 0, 50, 0]
    assert made.array("unknown").tolist() == [0, 7, 7, 7]
    assert memory_kind(path) == "timeline"


def test_sums(tmp_path):
    path = tmp_path / "t.json"
    path.write_text(json.dumps([[1696966047194486, 1696966047194487.5], [[0, 1, 2, 3, 4, 5, 6, 7, 8]] * 2]))
    made = read_memory_timeline(path)
    assert made.array("ts").tolist() == [1696966047194486000, 1696966047194487500]
    assert [made.array(name)[0] for name in TORCH_CATEGORIES] == [1, 2, 3, 4, 5, 6, 7, 8]


def test_a_real_one():
    path = TRACES / "memory_timeline.raw.gz"
    if not path.exists():
        pytest.skip(f"the real timeline is not here: {path}")
    made, level, peaks = read_memory_timeline(path), 0, []
    rows = json.loads(gzip.decompress(path.read_bytes()))
    assert made.num_events == len(rows) == 16_845
    for row, following in zip(rows, [*rows[1:], [None]], strict=True):
        level += row[2]
        if row[0] != following[0]:
            peaks.append(level)
    assert sum(made.array(name) for name in TORCH_CATEGORIES).tolist() == peaks


@pytest.mark.filterwarnings("ignore")
def test_what_torch_writes(tmp_path):
    torch = pytest.importorskip("torch")
    model = torch.nn.Linear(64, 64)
    with torch.profiler.profile(profile_memory=True, with_stack=True, record_shapes=True) as prof:
        model(torch.randn(16, 64)).sum().backward()
    sums, raw = tmp_path / "t.json", tmp_path / "t.raw.json.gz"
    prof.export_memory_timeline(str(sums), device="cpu")
    prof.export_memory_timeline(str(raw), device="cpu")
    peaks = []
    for path in (sums, raw):
        made = read_memory_timeline(path)
        peaks.append(int(max(sum(made.array(name) for name in TORCH_CATEGORIES))))
        assert int(made.array("parameter").max()) == sum(p.nbytes for p in model.parameters())
    assert peaks[0] == peaks[1] > 0


@pytest.mark.parametrize(
    "text",
    ["[]]", "{}", "[[1, 2], [[1]]]", "[[1, 2, 3]]", '[["a", 1, 2, 3]]', "[[1, 2, 3, 99]]", "[[1e400], [[0]]]",
     "[[1, 1, 99999999999999999999, 1]]", "[" * 5000, '{"traceEvents": []}'],
)  # fmt: skip
def test_anything_else_is_refused_in_one_line(text, tmp_path):
    path = tmp_path / "t.json"
    path.write_text(text)
    with pytest.raises(TraceError, match="no memory timeline") as error:
        read_memory_timeline(path)
    assert "\n" not in str(error.value)


def test_kinds_of_files(tmp_path):
    for name, data, kind in (
        ("a", b'{"traceEvents": []}', None),
        ("b", b"\x80\x04N.", "snapshot"),
        ("c", b" [\n[1", "timeline"),
    ):
        (tmp_path / name).write_bytes(data)
        assert memory_kind(tmp_path / name) == kind
    assert memory_kind(tmp_path) is memory_kind(tmp_path / "none") is memory_kind("-") is None
