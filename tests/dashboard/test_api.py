"""The addresses under /api: what they answer, and how they refuse what makes no sense."""

from __future__ import annotations

import pytest

pytest.importorskip("dash", reason="the dashboard is not installed")

from profsuite.dashboard.app import create
from profsuite.dashboard.catalog import Catalog


@pytest.fixture
def key(folder):
    return next(iter(Catalog([folder]).entries))


def test_answers(client, key):
    tracks = client.get(f"/api/{key}/tracks")
    assert tracks.status_code == 200, tracks.text
    assert tracks.json["length_ns"] == 3_000_000
    assert client.get(f"/api/{key}/search?text=gemm").json["num_found"] == 3
    assert client.get(f"/api/{key}/selection?tracks=0,1,2&start=0&end=3000000").json["dur_ns"] == 3_000_000
    assert client.get(f"/api/{key}/slice?id=0").json["slice_id"] == 0
    assert client.get(f"/api/{key}/counter?counter=0&start=0&end=3000000&width=3").json["max"] == [0, 10, 20]
    assert client.get(f"/api/{key}/status").json["state"] == "ready"
    tile = client.get(f"/api/{key}/tile?lanes=0&start=0&end=3000000&width=10")
    assert tile.mimetype == "application/octet-stream"


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("export?start=0&end=10&format=pickle", 400),
        ("export?start=0&end=10", 400),
        ("export?start=10&end=0&format=chrome", 400),
        ("export?start=90000000&end=90000001&format=chrome", 422),
        ("tile?lanes=0&start=0&end=10&width=99999999", 400),
        ("tile?lanes=0&start=0&end=10&width=0", 400),
        ("tile?lanes=zero&start=0&end=10&width=10", 400),
        ("tile?lanes=0&start=10&end=10&width=10", 400),
        ("tile?lanes=0&start=0&end=99999999999999999999&width=10", 400),
        ("tile?lanes=0&start=0&end=nan&width=10", 400),
        ("tile", 400),
        ("slice?id=9999", 404),
        ("slice?id=-1", 400),
        ("counter?counter=99&start=0&end=10&width=10", 404),
        ("search", 400),
        ("nothing", 404),
    ],
)
def test_refuses(client, key, path, code):
    # Dash answers unknown addresses with its page.
    answer = client.get(f"/api/{key}/{path}")
    assert answer.status_code == code or (code == 404 and answer.mimetype == "text/html")


def test_names_stay_data(tmp_path, hostile, job):
    import json

    (tmp_path / "evil.json").write_text(json.dumps({"traceEvents": job(hostile)}))
    client = create([tmp_path]).server.test_client()
    (key,) = Catalog([tmp_path]).entries
    for path in (f"/api/{key}/search?text=img", f"/api/{key}/slice?id=3"):
        answer = client.get(path)
        assert answer.mimetype == "application/json"
        assert answer.headers["X-Content-Type-Options"] == "nosniff"


@pytest.mark.parametrize(
    ("text", "code"), [("", 422), ('{"traceEvents": [', 200), ("[]", 200), ("not a trace at all", 422), ("[1]", 422)]
)
def test_files_with_nothing_to_show(tmp_path, text, code):
    path = tmp_path / "rank_0.json"
    path.write_text(text)
    client = create([path]).server.test_client()
    (key,) = Catalog([path]).entries
    answer = client.get(f"/api/{key}/tracks")
    assert answer.status_code == code
    assert answer.json["tracks"] == [] if code == 200 else b"rank_0.json" in answer.data
