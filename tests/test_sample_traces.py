"""The facts in sample_traces/README.md are those of the files."""

import json
import re
from pathlib import Path

import pytest

import profsuite

FOLDER = Path(__file__).parent.parent / "sample_traces"
FACTS = [
    tuple(cell.strip().strip("`") for cell in line.strip().strip("|").split("|"))
    for line in (FOLDER / "README.md").read_text().splitlines()
    if line.startswith("| `")
]


def test_every_file_is_listed():
    files = {path.relative_to(FOLDER).as_posix() for path in FOLDER.rglob("*.gz")}
    assert files == {fact[0] for fact in FACTS}


@pytest.mark.parametrize("fact", FACTS, ids=lambda fact: fact[0])
def test_facts(fact):
    name, rank, events, slices, kernels, memory, steps, what = fact
    trace = profsuite.load(FOLDER / name, cache=False)
    assert trace.info.rank == (None if rank == "–" else int(rank))
    assert trace.info.num_events == int(events)
    assert trace.num_rows("slice") == int(slices)
    assert trace.num_rows("kernel") == int(kernels)
    assert trace.num_rows("memory_event") == int(memory)
    numbers = trace.steps.column("number").to_pylist()
    if steps == "–":
        assert numbers == []
    else:
        first, last = map(int, steps.split("–"))
        assert numbers == list(range(first, last + 1))
    if waited := re.search(r"([0-9.]+) ms of `__next__`", what):
        names = trace.to_pandas("slice")
        loader = names[names.name.str.startswith("enumerate(DataLoader)")]
        assert f"{loader.dur.sum() / 1e6:.3f}" == waited[1]


@pytest.mark.parametrize("job", ["gpu_ddp_one_rank", "gpu_ddp_slow_rank"])
def test_generated_jobs_equal_the_truth(job):
    truth = json.loads((FOLDER / job / "truth.json").read_text())["ranks"]
    assert len(truth) == len(list((FOLDER / job).glob("*.gz")))
    for expected in truth:
        trace = profsuite.load(FOLDER / job / f"rank_{expected['rank']}.json.gz", cache=False)
        assert trace.info.num_events == expected["events"]
        launches = trace.kernels.column("launch_id").to_pylist() + trace.table("memcpy").column("launch_id").to_pylist()
        assert len(launches) == expected["gpu_launches"]
        assert None not in launches


def test_no_paths_or_names_of_the_recording_machine():
    import gzip

    for path in FOLDER.rglob("*.gz"):
        text = gzip.decompress(path.read_bytes()).decode()
        assert not re.search(r"/(root|home|Users|tmp|work)/", text), path
