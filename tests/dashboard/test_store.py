"""Loading: in the background, once, cancelled when told, and never more in memory than is kept."""

from __future__ import annotations

import json
import os
import threading

import pytest

pytest.importorskip("dash", reason="the dashboard is not installed")

from profsuite.dashboard import store as module
from profsuite.dashboard.catalog import Catalog
from profsuite.dashboard.store import Store
from profsuite.errors import ProfsuiteError


@pytest.fixture
def entries(tmp_path):
    for rank in range(4):
        (tmp_path / f"rank_{rank}.json").write_text('{"traceEvents": []}')
    return sorted(Catalog([tmp_path]).entries.values(), key=lambda entry: entry.name)


def test_a_trace_is_read_once(entries):
    store = Store()
    first = store.session(entries[0])
    assert store.session(entries[0]) is first
    assert store.start(entries[0]).state == "ready"


def test_the_one_unused_for_longest_goes(entries):
    store = Store(kept=2)
    first, second = store.session(entries[0]), store.session(entries[1])
    assert store.session(entries[0]) is first
    store.session(entries[2])
    assert store.session(entries[0]) is first
    assert store.session(entries[1]) is not second


def test_cancel(entries, monkeypatch):
    begun = threading.Event()

    def endless(path, progress):
        begun.set()
        done = 0
        while True:
            done += 1
            progress(done, None)

    monkeypatch.setattr(module, "load", endless)
    store = Store()
    found = store.start(entries[0])
    assert begun.wait(10)
    assert found.state == "loading"
    found.cancel()
    assert found.finished.wait(10)
    assert found.state == "cancelled"
    assert found.done > 0
    assert found.result is None


def test_what_goes_wrong_is_said(entries, monkeypatch):
    def broken(path, progress):
        raise ZeroDivisionError("an accident")

    monkeypatch.setattr(module, "load", broken)
    store = Store()
    with pytest.raises(ProfsuiteError, match="ZeroDivisionError: an accident"):
        store.session(entries[0])
    monkeypatch.undo()
    assert store.session(entries[0]).trace.num_rows("slice") == 0


def test_what_is_written_again_is_read_again(entries, slice_):
    store = Store()
    first = store.session(entries[0])
    assert store.session(entries[0]) is first
    entries[0].path.write_text(json.dumps({"traceEvents": [slice_("a", 0, 5)]}))
    os.utime(entries[0].path, ns=(1, 1))
    assert store.session(entries[0]) is first  # shown until the new one is there
    store._newer[entries[0].key].finished.wait(30)
    second = store.session(entries[0])
    assert second.trace.num_rows("slice") == 1
    # Broken just now: what was there stays.
    entries[0].path.write_text("not a trace")
    os.utime(entries[0].path, ns=(2, 2))
    assert store.session(entries[0]) is second
    store._newer[entries[0].key].finished.wait(30)
    assert store.session(entries[0]) is second


def test_diff_is_the_analyzers(open_session, job):
    before, after = open_session(job()), open_session(job())
    store = Store()
    found = store.diff(before, after)
    assert found.time is not None
    assert found.time.change_ms_per_step == 0
    assert store.diff(before, after) is found
