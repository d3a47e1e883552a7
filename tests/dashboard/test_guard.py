"""Who may ask for what: tokens, names, origins, sizes, paths; and what a page may do."""

from __future__ import annotations

import pytest

pytest.importorskip("dash", reason="the dashboard is not installed")

from profsuite.dashboard.addresses import is_loopback
from profsuite.dashboard.guard import MOST_UPLOADED, Guard


def test_policy(client):
    policy = client.get("/").headers["Content-Security-Policy"]
    rules = dict(part.strip().partition(" ")[::2] for part in policy.split(";"))
    assert rules["default-src"] == rules["base-uri"] == rules["form-action"] == rules["frame-ancestors"] == "'none'"
    assert "unsafe" not in rules["script-src"]
    assert "http" not in policy


@pytest.mark.parametrize("path", ["/", "/_dash-layout", "/definitions", "/assets/timeline.js", "/api/0/tracks"])
def test_token(guarded, path):
    client = guarded(Guard("let-me-in"))
    assert client.get(path).status_code == 401
    assert client.get(path + "?token=let-me-out").status_code == 401
    assert client.get(path, headers={"Cookie": "profsuite_token=wrong"}).status_code == 401


def test_token_is_kept_and_leaves_the_address(guarded):
    client = guarded(Guard("let-me-in"))
    answer = client.get("/x/overview?token=let-me-in")
    assert answer.status_code == 302
    assert answer.headers["Location"] == "/x/overview"
    cookie = answer.headers["Set-Cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie
    assert client.get("/definitions").status_code == 200


@pytest.mark.parametrize("token", ["", "\N{SNOWMAN}", "let-me-i", "let-me-in "])
def test_tokens_that_are_wrong(guarded, token):
    assert guarded(Guard("let-me-in")).get("/", query_string={"token": token}).status_code == 401


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "evil.example:8050", "10.0.0.7", "", "["])
def test_a_name_that_is_not_ours(client, host):
    assert client.get("/", headers={"Host": host}).status_code in (400, 403)


@pytest.mark.parametrize("host", ["localhost:8050", "127.0.0.1", "[::1]:80"])
def test_names_of_loopback(client, host):
    assert client.get("/", headers={"Host": host}).status_code == 200


def test_names_beyond_loopback(guarded):
    client = guarded(Guard(None, frozenset({"node7"})))
    assert client.get("/", headers={"Host": "node7:8050"}).status_code == 200
    assert client.get("/", headers={"Host": "10.0.0.7:8050"}).status_code == 200
    assert client.get("/", headers={"Host": "evil.example"}).status_code == 403


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "http://localhost:81", "http://localhost.evil.example"]
)
def test_a_second_origin(client, origin):
    headers = {"Host": "localhost:80", "Origin": origin}
    for path in ("/_dash-update-component", "/api/0/cancel"):
        assert client.post(path, json={}, headers=headers).status_code == 403


def test_our_own_origin(client):
    headers = {"Host": "localhost:8050", "Origin": "http://localhost:8050"}
    assert client.get("/_dash-layout", headers=headers).status_code == 200


def test_uploads_have_a_limit(client):
    answer = client.post("/_dash-update-component", data=b"x" * (MOST_UPLOADED + 1), content_type="application/json")
    assert answer.status_code == 413


@pytest.mark.parametrize(
    "path",
    ["../secret.json", "..%2fsecret.json", "%2e%2e/secret.json", "....//secret.json", "/etc/passwd", "..\\secret.json"],
)
def test_paths_that_lead_out(client, path):
    for begin in ("/assets/", "/api/", "/api/../", "/_dash-component-suites/dash/", "/"):
        answer = client.get(begin + path)
        assert b"secret" not in answer.data.replace(b"secret.json", b"")
        assert b"root:" not in answer.data


@pytest.mark.parametrize("name", ["status", "tracks", "tile", "counter", "selection", "search", "slice"])
def test_traces_that_are_not_there(client, name):
    assert client.get(f"/api/0123456789abcdef/{name}").status_code == 404


def test_loopback():
    assert [is_loopback(h) for h in ("127.0.0.1", "localhost", "::1", "127.9.9.9")] == [True] * 4
    assert [is_loopback(h) for h in ("0.0.0.0", "::", "10.0.0.1", "node7")] == [False] * 4
