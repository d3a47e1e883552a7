"""Many ranks at once: a pool of processes and a Dask cluster give what one process gives."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import msgspec
import pytest

from profsuite.analyzers.job.report import analyze_summaries
from profsuite.analyzers.job.run import analyze_job, examine_all, summaries_of
from profsuite.errors import MissingExtraError, ProfsuiteError, SelectionError, TraceError
from profsuite.trace.load import find_ranks

SAMPLE = Path(__file__).parents[3] / "sample_traces" / "gpu_ddp_slow_rank"


@pytest.fixture
def folder(tmp_path):
    """Four ranks, and a fifth whose file is damaged."""
    for path in SAMPLE.glob("rank_*.json.gz"):
        shutil.copy(path, tmp_path)
    (tmp_path / "rank_4.json").write_text('{"traceEvents": 5}')
    return tmp_path


def told(outcomes):
    """All that the outcomes say, and the job's report on them, as JSON."""
    reports = [(o.file.rank, o.error, o.health, o.report) for o in outcomes]
    return msgspec.json.encode((reports, analyze_summaries(summaries_of(outcomes))))


def test_a_pool_gives_what_one_process_gives(folder):
    files = find_ranks(folder)
    seen = []
    serial = examine_all(files, cache=False)
    pooled = examine_all(files, jobs=2, cache=False, done=lambda done, total: seen.append((done, total)))
    assert told(pooled) == told(serial)
    assert seen == [(n, 5) for n in range(1, 6)]
    assert [outcome.error is None for outcome in serial] == [True] * 4 + [False]
    assert serial[4].error.startswith(f"{folder}/rank_4.json: ")


class Fatal:
    """Ends the process that receives it."""

    def __reduce__(self):
        import os

        return (os._exit, (9,))


def test_a_process_that_dies(folder):
    with pytest.raises(ProfsuiteError, match="one of 2 processes that read ranks died"):
        examine_all(find_ranks(folder), jobs=2, only=Fatal(), cache=False)


def test_a_cluster_gives_what_one_process_gives(folder, monkeypatch):
    distributed = pytest.importorskip("distributed", reason="Dask is not installed")
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address=None, scheduler_port=0, local_directory=folder.parent
    ) as cluster:
        monkeypatch.chdir(folder.parent)  # a worker has another working folder
        relative = find_ranks(folder.name)
        clustered = examine_all(relative, scheduler=cluster.scheduler_address, cache=False)
    assert told(clustered) == told(examine_all(relative, cache=False))
    assert [o.report.source for o in clustered if o.report] == [f"{folder.name}/rank_{r}.json.gz" for r in range(4)]


def test_no_scheduler(folder, monkeypatch):
    pytest.importorskip("distributed", reason="Dask is not installed")
    monkeypatch.setattr("profsuite.analyzers.job.run.CONNECT_SECONDS", 0.2)
    with pytest.raises(ProfsuiteError, match=r"tcp://127\.0\.0\.1:1: no scheduler answers there"):
        examine_all(find_ranks(folder), scheduler="tcp://127.0.0.1:1")


def test_without_dask(folder, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "distributed", None)
    with pytest.raises(MissingExtraError, match=r"profsuite\[distributed\]"):
        examine_all(find_ranks(folder), scheduler="tcp://127.0.0.1:1")


def test_a_folder_behind_a_url(folder):
    (folder / "rank_4.json").unlink()
    (folder / "notes.txt").write_text("none")
    by_url, by_path = analyze_job(f"file://{folder}", jobs=1), analyze_job(folder, jobs=1)
    assert by_url.wait_matrix_ns == by_path.wait_matrix_ns
    assert [row.source for row in by_url.ranks] == [f"file://{folder}/rank_{r}.json.gz" for r in range(4)]
    assert [f.rank for f in find_ranks(f"file://{folder}", [1, 2])] == [1, 2]


def test_a_url_without_a_trace(tmp_path):
    (tmp_path / "notes.txt").write_text("none")
    with pytest.raises(TraceError, match="holds no trace"):
        find_ranks(f"file://{tmp_path}")


def test_what_is_no_job(folder):
    with pytest.raises(TraceError, match=r"rank_4\.json"):
        analyze_job(folder, jobs=1)
    (folder / "rank_4.json").unlink()
    with pytest.raises(SelectionError, match="not the ranks of a job"):
        analyze_job(folder / "rank_0.json.gz")
    with pytest.raises(SelectionError, match="not the ranks of a job"):
        analyze_job([folder / "rank_0.json.gz", folder / "rank_0.json.gz"], jobs=1)


def test_options_reach_every_rank(folder):
    (folder / "rank_4.json").unlink()
    outcomes = examine_all(find_ranks(folder), steps=(2, 3), cache=False)
    assert [outcome.report.steps.count for outcome in outcomes] == [1] * 4
    with pytest.raises(SelectionError, match="90"):
        examine_all(find_ranks(folder), jobs=2, steps=(90, 91), cache=False)


def test_the_summary_holds_no_trace(folder):
    import pickle

    (folder / "rank_4.json").unlink()
    outcomes = examine_all(find_ranks(folder), only=(), cache=False)
    sizes = [len(pickle.dumps(outcome)) for outcome in outcomes]
    events = json.loads((SAMPLE / "truth.json").read_text())["ranks"][0]["events"]
    assert max(sizes) < 16 * events
