"""Finding CUPTI and compiling the engine."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from profsuite.collector.cupti import library
from profsuite.collector.cupti.library import CuptiError


@pytest.fixture
def nothing_installed(monkeypatch, tmp_path):
    """No wheel, no toolkit, nothing loaded: what the tests make is all there is."""
    for name in ("CUPTI_INCLUDE", "CUPTI_LIBRARY", "CUDA_HOME", "CUDA_PATH"):
        monkeypatch.delenv(name, raising=False)
    site = tmp_path / "site"
    monkeypatch.setattr(library, "_package", lambda name: [site / name] if (site / name).is_dir() else [])
    monkeypatch.setattr(library, "_loaded_library", lambda: None)
    toolkits = [tmp_path / "toolkit"]
    monkeypatch.setattr(library, "_toolkits", lambda: toolkits)
    return tmp_path


def touch(path):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    return path


def test_headers_are_looked_for_in_order(nothing_installed, monkeypatch):
    tmp_path = nothing_installed
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(version=SimpleNamespace(cuda=None)))
    system = Path("/usr/include/cupti_activity.h").is_file()
    assert library.find_headers() == (Path("/usr/include") if system else None)
    toolkit = touch(tmp_path / "toolkit/extras/CUPTI/include/cupti_activity.h")
    assert library.find_headers() == toolkit.parent
    wheel = touch(tmp_path / "site/nvidia/cuda_cupti/include/cupti_activity.h")
    newer = touch(tmp_path / "site/nvidia/cu13/include/cupti_activity.h")
    assert library.find_headers() == wheel.parent
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(version=SimpleNamespace(cuda="13.0")))
    assert library.find_headers() == newer.parent
    chosen = touch(tmp_path / "chosen/cupti_activity.h")
    monkeypatch.setenv("CUPTI_INCLUDE", f"{tmp_path / 'missing'}{os.pathsep}{chosen.parent}")
    assert library.find_headers() == chosen.parent


def test_libcupti_is_the_one_for_torch(nothing_installed, monkeypatch):
    tmp_path = nothing_installed
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(version=SimpleNamespace(cuda="13.0")))
    assert library.find_library() is None
    touch(tmp_path / "toolkit/lib64/libcupti.so.11")  # its records are of another layout
    assert library.find_library() is None
    bundled = touch(tmp_path / "site/torch/lib/libcupti-1a2b3c.so.12")
    assert library.find_library() == bundled
    touch(tmp_path / "site/nvidia/cuda_cupti/lib/libcupti.so.12")
    newer = touch(tmp_path / "site/nvidia/cu13/lib/libcupti.so.13")
    assert library.find_library() == newer
    loaded = tmp_path / "loaded/libcupti.so.12"
    monkeypatch.setattr(library, "_loaded_library", lambda: loaded)
    assert library.find_library() == loaded
    monkeypatch.setenv("CUPTI_LIBRARY", "/chosen/libcupti.so")
    assert library.find_library() == Path("/chosen/libcupti.so")


def test_a_loaded_libcupti_is_found(sim, make_engine):
    engine = make_engine()
    engine.start()
    engine.stop()
    assert "libcupti-simulated" in str(library._loaded_library())


def test_many_ranks_compile_once(tmp_path):
    headers = library.find_headers()
    if headers is None or library.compiler() is None:
        pytest.skip("no CUPTI headers, or no C++ compiler")
    compiler = tmp_path / "slow-g++"
    compiler.write_text(f'#!/bin/sh\necho compiled >> {tmp_path}/log\nsleep 0.3\nexec {library.compiler()} "$@"\n')
    compiler.chmod(0o755)
    environment = {
        **os.environ, "CXX": str(compiler), "CUPTI_INCLUDE": str(headers),
        "PROFSUITE_CACHE": str(tmp_path / "cache/traces"),
    }  # fmt: skip
    code = "from profsuite.collector.cupti import library; print(library.build())"
    ranks = [
        subprocess.Popen([sys.executable, "-c", code], env=environment, stdout=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    paths = {rank.communicate(timeout=120)[0] for rank in ranks}
    assert [rank.returncode for rank in ranks] == [0, 0, 0]
    assert len(paths) == 1
    assert (tmp_path / "log").read_text() == "compiled\n"
    left = sorted(path.suffix for path in (tmp_path / "cache/native").iterdir())
    assert left == [".lock", ".so"]


def test_a_compiler_that_fails(environment, monkeypatch, tmp_path):
    compiler = tmp_path / "broken-g++"
    compiler.write_text("#!/bin/sh\necho 'x.cpp:1: error: no such thing' >&2\nexit 1\n")
    compiler.chmod(0o755)
    monkeypatch.setenv("CXX", str(compiler))
    monkeypatch.setenv("PROFSUITE_CACHE", str(tmp_path / "cache/traces"))
    with pytest.raises(CuptiError, match=r"does not compile with .*broken-g\+\+ .*: x\.cpp:1: error: no such thing"):
        library.build()
    assert [path.suffix for path in (tmp_path / "cache/native").iterdir()] == [".lock"]


def test_a_cache_that_cannot_be_written(environment, monkeypatch, tmp_path):
    (tmp_path / "file").touch()
    monkeypatch.setenv("PROFSUITE_CACHE", str(tmp_path / "file/cache/traces"))
    with pytest.raises(CuptiError, match="cannot be written"):
        library.build()


def test_no_headers_and_no_compiler(nothing_installed, monkeypatch, tmp_path):
    monkeypatch.setattr(library, "find_headers", lambda: None)
    with pytest.raises(CuptiError, match="needs CUPTI's headers: pip install nvidia-cuda-cupti-cu12"):
        library.build()
    assert library.built() is None
    monkeypatch.setattr(library, "compiler", lambda: None)
    monkeypatch.setenv("PROFSUITE_CACHE", str(tmp_path / "cache/traces"))
    headers = touch(tmp_path / "h/cupti_activity.h").parent
    touch(headers / "cupti_version.h")
    with pytest.raises(CuptiError, match=r"needs a C\+\+ compiler"):
        library.build(headers)


def test_an_engine_that_cannot_be_opened(tmp_path):
    broken = tmp_path / "engine.so"
    broken.write_bytes(b"no library")
    with pytest.raises(CuptiError, match="cannot be opened"):
        library.load(broken)


def test_importing_the_engine_imports_no_torch():
    code = "import sys, profsuite.collector.cupti.engine; print('torch' in sys.modules, 'cupti' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "False False\n"


def real_libraries():
    return list(dict.fromkeys(path for path in library._libraries() if library._major(path) in library.MAJORS))


@pytest.mark.parametrize("path", real_libraries() or [None], ids=lambda p: p.name if p else "none")
def test_a_real_libcupti_opens_and_says_that_there_is_no_driver(path):
    if path is None:
        pytest.skip("no libcupti: pip install nvidia-cuda-cupti-cu12")
    if library.find_headers() is None or library.compiler() is None:
        pytest.skip("no CUPTI headers, or no C++ compiler")
    code = f"""
import ctypes
from profsuite.collector.cupti.engine import CuptiConfig, CuptiEngine
try:
    ctypes.CDLL("libcuda.so.1")
    print("driver")
except OSError:
    try:
        CuptiEngine(CuptiConfig(library={str(path)!r}, driver=None)).start()
    except Exception as error:
        print(f"{{type(error).__name__}}: {{error}}")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    if done.stdout == "driver\n":
        pytest.skip("there is a driver: make gpu-test")
    assert done.stdout.startswith("CuptiError: the CUPTI engine cannot start: "), done.stderr
    assert "driver" in done.stdout
