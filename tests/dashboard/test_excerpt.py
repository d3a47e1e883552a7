"""A stretch of a trace in another format: the slices that overlap it, as the exporters write them."""

from __future__ import annotations

import json
import threading
import time

import pytest

pytest.importorskip("dash", reason="the dashboard is not installed")

from profsuite.dashboard.catalog import Catalog
from profsuite.dashboard.excerpt import excerpt, file_name
from profsuite.errors import SelectionError
from profsuite.exporters.export import export
from profsuite.trace.select import cut


def slices(data):
    return sorted((event["name"], event["ts"]) for event in json.loads(data)["traceEvents"] if event["ph"] == "X")


def test_it_is_what_overlaps(open_session, job):
    session = open_session(job())
    found = b"".join(excerpt(session, 1_050_000, 1_200_000, "chrome"))
    assert slices(found) == [
        ("ProfilerStep#1", 1000),
        ("aten::mm", 1010),
        ("cudaDeviceSynchronize", 1100),
        ("gemm", 1040),
    ]


@pytest.mark.parametrize(("form", "name"), [("chrome", "part.json"), ("perfetto", "part.pftrace")])
def test_it_is_the_exporters(open_session, job, tmp_path, form, name):
    session = open_session(job())
    found = b"".join(excerpt(session, 0, 1_500_000, form))
    part = cut(session.trace, session.pyramid.start_ns, session.pyramid.start_ns + 1_500_000, "0.000 to 1.500 ms")
    whole = export(part, tmp_path / name, form).read_bytes()
    if form == "chrome":
        assert slices(found) == slices(whole)
    else:
        assert found == whole


def test_nothing_there(open_session, job):
    with pytest.raises(SelectionError):
        excerpt(open_session(job()), 10**10, 10**10 + 1, "chrome")


def test_who_stops_reading_stops_the_writing(open_session, job):
    session = open_session(job(steps=3000))
    before = threading.active_count()
    blocks = excerpt(session, 0, 10**10, "chrome")
    assert next(blocks)
    blocks.close()
    assert threading.active_count() == before or not any(t.name == "profsuite-excerpt" for t in threading.enumerate())


def test_what_goes_wrong_is_raised(open_session, job, monkeypatch):
    from profsuite.exporters.chrome import FORMAT

    def broken(self, source, target):
        target.write(b"begun")
        time.sleep(0)
        raise ZeroDivisionError("an accident")

    monkeypatch.setattr(type(FORMAT), "write", broken)
    blocks = excerpt(open_session(job()), 0, 10**7, "chrome")
    assert next(blocks) == b"begun"
    with pytest.raises(ZeroDivisionError):
        next(blocks)


def test_by_its_address(client, folder):
    key = next(iter(Catalog([folder]).entries))
    answer = client.get(f"/api/{key}/export?start=0&end=500000&format=chrome")
    assert answer.status_code == 200
    assert answer.headers["Content-Disposition"] == 'attachment; filename="job_0.000-0.500ms.json"'
    assert ("gemm", 40) in slices(answer.data)


def test_a_name_is_no_header(open_session, job):
    session = open_session(job())
    object.__setattr__(session.entry, "path", session.entry.path.with_name('a"\r\nX: y; rm -rf.json'))
    assert file_name(session, 0, 1_000_000, "perfetto") == "a_X_y_rm_-rf_0.000-1.000ms.pftrace"
