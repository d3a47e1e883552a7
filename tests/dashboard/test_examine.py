"""The report is the analyzers', wherever it is made, and is kept only where it can be trusted to be."""

from __future__ import annotations

import pytest

pytest.importorskip("dash", reason="the dashboard is not installed")

from profsuite.analyzers.report import analyze
from profsuite.dashboard import examine as module
from profsuite.dashboard.background import Cancelled
from profsuite.dashboard.examine import TOP, examine, folder_of, kept
from profsuite.errors import ProfsuiteError
from profsuite.trace import cache
from profsuite.trace.load import load


def nothing():
    pass


def never():
    raise AssertionError("no process was to be started")


@pytest.fixture
def cached(folder, tmp_path, monkeypatch):
    """A trace's path, and the folder in the cache where it is; nothing is too small for either."""
    monkeypatch.setenv("PROFSUITE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(cache, "MIN_BYTES", 0)
    monkeypatch.setattr(module, "MIN_BYTES", 0)
    monkeypatch.setattr(module, "MANY_SLICES", 0)
    path = folder / "job.json"
    load(path)
    cache.settle()
    return path, folder_of(path)


def test_a_process_makes_it_and_it_is_kept(cached):
    path, folder = cached
    trace = load(path)
    wanted = analyze(trace, top=TOP)
    assert wanted.whatif is not None
    looked = []
    assert examine(path, trace, lambda: looked.append(1)) == wanted
    assert looked
    assert [each.name for each in folder.glob("*report*")] == [module._name()]
    assert kept(folder) == wanted
    assert examine(path, trace, never) == wanted


def test_what_is_damaged_is_made_again(cached):
    path, folder = cached
    trace = load(path)
    for content in (b"", b"\xc1", b"\x80", b"\x81\xa6source\x01"):
        (folder / module._name()).write_bytes(content)
        assert kept(folder) is None
    (folder / "report.0123.msgpack").write_bytes(b"another version's")
    assert examine(path, trace, nothing) == kept(folder)
    assert not (folder / "report.0123.msgpack").exists()


def test_it_can_be_given_up(cached):
    path, folder = cached

    def stop():
        raise Cancelled

    with pytest.raises(Cancelled):
        examine(path, load(path), stop)
    assert kept(folder) is None


def test_a_process_that_fails(cached):
    path, folder = cached
    trace = load(path)
    (folder / "slice.arrow").write_bytes(b"")
    with pytest.raises(ProfsuiteError, match="the analysis ended early"):
        examine(path, trace, nothing)


def test_without_a_cache_it_is_made_here(cached, tmp_path, monkeypatch):
    path, _ = cached
    trace = load(path)
    monkeypatch.setenv("PROFSUITE_CACHE", str(tmp_path / "elsewhere"))
    assert examine(path, trace, never) == analyze(trace, top=TOP)


def test_a_run_folder_is_not_written_to(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "MANY_SLICES", 0)
    trace = load(folder / "job.json", cache=False)
    run = trace.save(tmp_path / "run")
    before = sorted(each.name for each in run.iterdir())
    assert folder_of(run) == run
    assert examine(run, trace, nothing) == analyze(trace, top=TOP)
    assert sorted(each.name for each in run.iterdir()) == before
