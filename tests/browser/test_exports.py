"""Exported files in the programs that they are for."""

from __future__ import annotations

import base64
import json
import shutil
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

import profsuite
from profsuite.trace.load import load

SAMPLE = Path(__file__).parents[2] / "sample_traces" / "gpu_ddp_one_rank" / "rank_0.json.gz"

pytestmark = pytest.mark.slow


@pytest.fixture
def page(browser):
    """A page for programs of others: they may warn, but nothing may fail in them."""
    context = browser.new_context(viewport={"width": 1280, "height": 720})
    opened = context.new_page()
    faults = []
    opened.on("pageerror", lambda error: faults.append(str(error)))
    yield opened
    context.close()
    assert faults == []


@pytest.fixture(scope="session")
def speedscope(tmp_path_factory):
    """speedscope's own package, unpacked; skips where npm or its registry is not there."""
    folder = tmp_path_factory.mktemp("speedscope")
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("npm is not here: speedscope's package cannot be fetched")
    done = subprocess.run([npm, "pack", "speedscope@1.25.0"], cwd=folder, capture_output=True, timeout=120)
    packed = list(folder.glob("*.tgz"))
    if done.returncode or not packed:
        pytest.skip("speedscope's package cannot be fetched from npm's registry")
    with_filter = {"filter": "data"} if sys.version_info >= (3, 12) else {}
    shutil.unpack_archive(packed[0], folder, **with_filter)
    return next(folder.rglob("index.html")).parent


@pytest.fixture(scope="module")
def sample():
    return load(SAMPLE, cache=False)


def test_speedscope_has_its_schema(sample, speedscope, tmp_path):
    jsonschema = pytest.importorskip("jsonschema")
    schema = json.loads((speedscope / "file-format-schema.json").read_text(encoding="utf-8"))
    file = profsuite.export(sample, tmp_path / "job.speedscope.json")
    found = json.loads(file.read_text(encoding="utf-8"))
    jsonschema.validate(found, schema)
    found["profiles"][0]["unit"] = "parsecs"
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(found, schema)


@pytest.mark.parametrize(
    ("ending", "name"),
    [("speedscope.json", "cudaStreamSynchronize"), ("collapsed", "cudaStreamSynchronize"), ("pb.gz", "ncclDevKernel")],
)
def test_speedscope_opens_it(page, sample, speedscope, tmp_path, ending, name):
    file = profsuite.export(sample, tmp_path / f"job.{ending}")
    script = tmp_path / "profile.js"
    data = base64.b64encode(file.read_bytes()).decode()
    script.write_text(f"speedscope.loadFileFromBase64({json.dumps(file.name)}, {json.dumps(data)})", encoding="utf-8")
    page.goto(f"{(speedscope / 'index.html').as_uri()}#localProfilePath={script}")
    page.get_by_text("Sandwich").wait_for()
    page.get_by_text("Sandwich").click()
    row = page.locator("tr", has_text=name).first
    row.wait_for()
    if ending != "collapsed":  # which has no unit
        rows = [row for row in sample.slices.to_pylist() if row["name"].startswith(name)]
        if ending == "speedscope.json":  # it opens with the first thread
            rows = [row for row in rows if row["track_id"] == rows[0]["track_id"]]
        assert f"{sum(row['self_dur'] for row in rows) / 1e6:.2f}ms" in row.inner_text()


def test_tensorboard_shows_it(page, sample, tmp_path):
    pytest.importorskip("tensorboard", reason="needs the extra tensorboard")
    folder = profsuite.export(sample, tmp_path / "logs", "tensorboard")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "tensorboard.main", "--logdir", str(folder), "--port", str(port)]
    server = subprocess.Popen(
        [*command, "--load_fast=false", "--host", "127.0.0.1"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    try:
        assert server.stdout is not None
        for line in server.stdout:
            if b"Press CTRL+C" in line:
                break
        page.goto(f"http://127.0.0.1:{port}/#timeseries")
        page.get_by_text("GPU 0", exact=False).first.wait_for()
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/data/plugin/scalars/tags") as answer:
            tags = json.loads(answer.read())["rank0"]
        assert {"step/seconds", "GPU 0/compute seconds"} <= set(tags)
    finally:
        server.kill()
        server.communicate()
