"""The server itself, and the command that starts it."""

from __future__ import annotations

import re
import subprocess
import sys
import urllib.error
import urllib.request

import pytest
from click.testing import CliRunner

pytest.importorskip("dash", reason="the dashboard is not installed")


PROGRAM = [sys.executable, "-c", "from profsuite.cli import main; main()", "dashboard"]


@pytest.fixture
def running(folder):
    """A function that starts the program and gives the address that it prints; it is ended at the end."""
    begun = []

    def start(*options):
        command = [*PROGRAM, str(folder)]
        begun.append(
            subprocess.Popen([*command, "--no-browser", "--port", "0", *options], stdout=subprocess.PIPE, text=True)
        )
        return re.search(r"http://\S+", begun[-1].stdout.readline())[0]

    yield start
    for process in begun:
        process.terminate()
        process.communicate(timeout=30)


def get(address, data=None):
    try:
        with urllib.request.urlopen(urllib.request.Request(address, data), timeout=60) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


def test_on_loopback(running, folder):
    address = running()
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/", address)
    assert get(address)[0] == 200
    # Refused before the body is taken in: the server closes the connection, or answers.
    try:
        assert get(address + "_dash-update-component", b"x" * (3 << 20))[0] == 413
    except (ConnectionError, urllib.error.URLError):
        assert get(address)[0] == 200
    taken = [*PROGRAM, str(folder), "--no-browser", "--port", address.rsplit(":", 1)[1].strip("/")]
    second = subprocess.run(taken, capture_output=True, text=True, timeout=60)
    assert second.returncode == 2
    assert "choose another --port" in second.stderr
    taken[taken.index(str(folder))] = str(folder / "nope.json")
    absent = subprocess.run(taken, capture_output=True, text=True, timeout=60)
    assert absent.returncode == 2
    assert "nope.json: no such file or folder" in absent.stderr
    assert "Traceback" not in second.stderr


def test_beyond_loopback_it_asks_for_a_token(running):
    base, _, token = running("--host", "0.0.0.0").partition("?token=")
    assert len(token) >= 32
    local = re.sub(r"//[^/:]+", "//127.0.0.1", base)
    assert get(local)[0] == 401
    assert get(f"{local}?token={token[:-1]}")[0] == 401


def test_the_command_says_what_is_missing(monkeypatch, folder):
    from profsuite.cli.app import app

    monkeypatch.setitem(sys.modules, "profsuite.dashboard.serve", None)
    done = CliRunner().invoke(app, ["dashboard", str(folder)])
    assert done.exit_code == 2
    assert "pip install 'profsuite[dashboard]'" in done.output


def test_the_command_says_where_nothing_is(tmp_path):
    from profsuite.cli.app import app

    done = CliRunner().invoke(app, ["dashboard", str(tmp_path), "--no-browser"])
    assert done.exit_code == 2
    assert "holds no trace" in done.output
