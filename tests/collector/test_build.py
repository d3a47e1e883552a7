"""Builds: nobody waits for one, one at a time, failures are said once and remembered."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from profsuite.collector import build

pytest.importorskip("torch")
pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the recorder is for Linux")

# A compiler that notes that it was called, takes its time, and writes what it is told to.
FAKE = """#!/bin/sh
echo called >> "{log}"
sleep {seconds}
for argument; do [ "$last" = -o ] && out="$argument"; last="$argument"; done
{end}
"""


@pytest.fixture
def compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Makes a false compiler the one that is used; its calls are counted."""
    log = tmp_path / "calls"
    monkeypatch.setenv("PROFSUITE_CACHE", str(tmp_path / "cache" / "traces"))
    monkeypatch.setattr(build, "_loaded", {})
    monkeypatch.setattr(build, "_warned", set())

    def make(end: str = 'echo built > "$out"', seconds: float = 0) -> None:
        path = tmp_path / "compiler"
        path.write_text(FAKE.format(log=log, seconds=seconds, end=end))
        path.chmod(0o755)
        monkeypatch.setenv("CXX", str(path))

    make.calls = lambda: len(log.read_text().splitlines()) if log.exists() else 0
    return make


def wait_for(path: Path, seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not path.exists():
        assert time.monotonic() < end, f"{path} never came"
        time.sleep(0.05)


def test_load_waits_for_no_compiler(compiler, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    gate = tmp_path / "gate"
    compiler(f'while [ ! -e "{gate}" ]; do sleep 0.05; done; echo built > "$out"')
    assert build.load("recorder") is None
    assert build.load("recorder") is None
    assert capsys.readouterr().err.count("is being built in the background") == 1
    assert "not built yet" in str(build.why_not("recorder"))
    job = build.plan("recorder")
    gate.touch()
    wait_for(Path(job.target))
    assert compiler.calls() == 1
    assert build.why_not("recorder") is None
    for thread in threading.enumerate():
        if thread.name == "profsuite-build":
            thread.join()


def test_many_ranks_build_once(compiler) -> None:
    compiler(seconds=0.5)
    job = build.plan("recorder")
    threads = [threading.Thread(target=build.run, args=(job,), kwargs={"wait": True}) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert compiler.calls() == 1
    assert Path(job.target).read_text() == "built\n"
    left = {path.suffix for path in build.folder().iterdir()}
    assert left == {".so", ".lock"}


def test_a_build_under_way_is_left_to_its_process(compiler) -> None:
    compiler()
    job = build.plan("recorder")
    build.folder().mkdir(parents=True)
    with build._locked(job.lock, wait=True) as mine:
        assert mine
        build.run(job, wait=False)
    assert compiler.calls() == 0


def test_failure_is_said_in_one_line_and_remembered(compiler, capsys: pytest.CaptureFixture[str]) -> None:
    compiler("echo 'note' >&2; echo 'recorder.h:3: error: no such thing' >&2; exit 1")
    with pytest.raises(build.BuildError, match=r"recorder\.h:3: error: no such thing \(profsuite doctor --build"):
        build.build_now("recorder")
    tries = compiler.calls()
    assert tries == 2  # for the two language standards
    assert build.load("recorder") is None
    assert build.load("recorder") is None
    assert compiler.calls() == tries
    assert len(capsys.readouterr().err.splitlines()) == 1
    assert "no such thing" in str(build.why_not("recorder"))
    with pytest.raises(build.BuildError):
        build.build_now("recorder")
    assert compiler.calls() == 2 * tries
    compiler()  # another compiler: another try
    assert "not built yet" in str(build.why_not("recorder"))


def test_what_cannot_be_loaded_is_said(compiler) -> None:
    compiler()
    with pytest.raises(build.BuildError, match="does not load"):
        build.build_now("recorder")
    assert build.load("recorder") is None


def test_without_a_compiler(compiler, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    compiler()
    target = Path(build.plan("recorder").target)
    monkeypatch.delenv("CXX")
    monkeypatch.setenv("PATH", str(target.parent))
    assert "no C++ compiler" in str(build.why_not("recorder"))
    assert build.load("recorder") is None
    assert "no C++ compiler" in capsys.readouterr().err
    target.parent.mkdir(parents=True)
    target.write_text("built elsewhere")
    assert build.why_not("recorder") is None


def test_unwritable_cache(compiler, tmp_path: Path) -> None:
    compiler()
    (tmp_path / "cache").write_text("a file where the folder should be")
    with pytest.raises(build.BuildError, match="cannot write there"):
        build.build_now("recorder")


def test_key_is_what_the_build_depends_on(compiler, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    compiler()
    first = build.plan("recorder").target
    assert first == build.plan("recorder").target
    assert f"recorder-{torch.__version__}-cpython-" in first
    compiler("exit 3")
    assert build.plan("recorder").target != first
    second = build.plan("recorder").target
    monkeypatch.setattr(torch, "__version__", "9.9.9")
    assert build.plan("recorder").target != second


def test_a_new_build_removes_what_is_out_of_use(compiler) -> None:
    folder = build.folder()
    folder.mkdir(parents=True)
    now, day = time.time(), 86_400
    ages = {
        "recorder-2.9.0-cpython-311-x86_64-linux-gnu-aaaa-bb.so": 31,
        "recorder-2.9.0-cpython-311-x86_64-linux-gnu-aaaa-bb.lock": 400,
        "extract-2.9.0+cpu-cpython-311-x86_64-linux-gnu-cccc-bb.failed": 31,
        "extract-2.9.0+cpu-cpython-311-x86_64-linux-gnu-dddd-bb.so.4711": 31,
        "cupti_engine-0123456789abcdef.so": 31,
        # used meanwhile, though built long ago
        "recorder-2.8.0-cpython-311-x86_64-linux-gnu-aaaa-bb.so": 29,
        "recorder-2.8.0-cpython-311-x86_64-linux-gnu-aaaa-bb.lock": 400,
        # being built
        "recorder-2.7.0-cpython-311-x86_64-linux-gnu-aaaa-bb.lock": 31,
        # not ours
        "thesis.so": 400,
        "recorder-notes.txt": 400,
    }
    for name, days in ages.items():
        (folder / name).write_text("")
        os.utime(folder / name, (now - days * day,) * 2)
    compiler()
    job = build.plan("recorder")
    with build._locked(folder / "recorder-2.7.0-cpython-311-x86_64-linux-gnu-aaaa-bb.lock", wait=True):
        os.utime(folder / "recorder-2.7.0-cpython-311-x86_64-linux-gnu-aaaa-bb.lock", (now - 31 * day,) * 2)
        build.run(job, wait=True)
    assert {path.name for path in folder.iterdir()} == {*list(ages)[5:], Path(job.target).name, job.lock.name}


def test_loading_is_use() -> None:
    try:
        module = build.build_now("recorder")
    except build.BuildError as error:
        pytest.skip(str(error))
    path = Path(str(module.__file__))
    before = path.stat().st_mtime
    try:
        os.utime(path, (1e9, 1e9))
        code = "from profsuite.collector import build; build.load('recorder')"
        subprocess.run([sys.executable, "-c", code], check=True)
        assert path.stat().st_mtime > time.time() - 600
    finally:
        if path.stat().st_mtime < before:
            os.utime(path)


def test_every_source_is_named(tmp_path: Path) -> None:
    for extension in build.EXTENSIONS.values():
        seen = set()
        left = [extension.source]
        while left:
            name = left.pop()
            seen.add(name)
            for line in (build.NATIVE / name).read_text(encoding="utf-8").splitlines():
                if line.startswith('#include "'):
                    included = line.split('"')[1]
                    if included not in seen:
                        left.append(included)
        assert seen == {extension.source, *extension.headers}, extension.name


def test_doctor_builds(compiler) -> None:
    compiler("echo 'x.h:1: error: never' >&2; exit 1")
    command = [sys.executable, "-m", "profsuite.cli.app"]
    code = "from profsuite.cli import main; import sys; sys.argv = ['profsuite', 'doctor', '--build']; main()"
    done = subprocess.run([command[0], "-c", code], capture_output=True, text=True, env=os.environ)
    assert "the recorder extension could not be built: x.h:1: error: never" in done.stderr
    assert "recorder    not in use: the recorder extension could not be built" in done.stdout
