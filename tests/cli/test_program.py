"""The program as a user meets it: exit codes, one line an error, help, colours, pipes."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import click
import pytest

from profsuite import __version__
from profsuite.cli import app as program
from profsuite.cli.app import COMMANDS, one_line
from profsuite.errors import TraceError

Run = Callable[..., "CompletedProcess[str]"]

PROGRAM = [sys.executable, "-c", "from profsuite.cli import main; main()"]


def error_of(done: CompletedProcess[str]) -> str:
    """The only line on stderr."""
    assert done.stderr.endswith("\n")
    assert done.stderr.count("\n") == 1, done.stderr
    return done.stderr.strip()


def test_version(run_process: Run) -> None:
    done = run_process("--version")
    assert (done.returncode, done.stdout) == (0, f"profsuite {__version__}\n")


@pytest.mark.parametrize("name", COMMANDS)
def test_help_has_examples(run: Run, name: str) -> None:
    done = run(name, "--help")
    assert done.returncode == 0
    assert done.stdout.startswith(f"Usage: profsuite {name}")
    assert f"Examples:\n    profsuite {name}" in done.stdout


def test_without_a_command_the_help_is_printed(run: Run) -> None:
    done = run()
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == run("--help").stdout


def test_help_explains_exit_codes(run: Run) -> None:
    assert "a finding at or above --fail-on" in run("--help").stdout


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["nonsense"], "nonsense"),
        (["analyse", "x"], "did you mean analyze?"),
        (["whatif", "x", "--scale", "gemm=-1"], "the factor must be 0 or more"),
        (["whatif", "x", "--scale", "gemm=a"], "write PATTERN=FACTOR"),
        (["analyze"], "Missing argument"),
        (["analyze", "--top", "0", "x"], "--top"),
        (["analyze", "--steps", "x", "x"], "write 3:6"),
        (["analyze", "--only", "verdict,nonsense", "x"], "nonsense"),
        (["analyze", "--format", "pdf", "x"], "pdf"),
        (["convert", "x", "--to", "x"], "--to"),
        (["--nonsense"], "--nonsense"),
    ],
)
def test_a_wrong_command_line_is_one_line_and_exit_2(run: Run, args: list[str], words: str) -> None:
    result = run(*args)
    assert result.returncode == 2
    assert result.stdout == ""
    assert result.stderr.count("\n") == 1
    assert words in result.stderr
    assert "--help" in result.stderr


def test_a_file_in_place_of_a_command_says_what_to_type(run: Run, trace: Path) -> None:
    done = run(trace)
    assert done.returncode == 2
    assert f"profsuite analyze {trace}" in error_of(done)


@pytest.mark.parametrize("command", ["analyze", "info"])
def test_a_missing_file(run_process: Run, tmp_path: Path, command: str) -> None:
    done = run_process(command, tmp_path / "missing.json")
    assert done.returncode == 2
    assert "missing.json" in error_of(done)
    assert done.stdout == ""


@pytest.mark.parametrize(
    "content", [b"", b"hello", b"\x80\x04pickle", b"{}", b'{"a": 1}', b"\x1f\x8bgarbage", b"\x00" * 100]
)
def test_what_is_no_trace(run: Run, tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "bad.json"
    path.write_bytes(content)
    done = run("analyze", path)
    assert done.returncode == 2, done.stdout
    assert "bad.json" in error_of(done)


def test_an_empty_folder(run: Run, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    done = run("analyze", tmp_path / "empty")
    assert done.returncode == 2
    assert "empty" in error_of(done)


def test_a_hostile_path_cannot_write_to_the_terminal(run: Run, tmp_path: Path) -> None:
    done = run("analyze", tmp_path / "a\x1b[31m\nb.json")
    assert done.returncode == 2
    assert "\x1b" not in error_of(done)


def test_an_output_that_cannot_be_written(run: Run, trace: Path, tmp_path: Path) -> None:
    done = run("analyze", trace, "--output", tmp_path / "no" / "such" / "folder.txt")
    assert done.returncode == 2
    assert "folder.txt" in error_of(done)


def test_a_fault_of_profsuite_is_one_line_with_its_place(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> None:
        raise KeyError("surprise")

    monkeypatch.setattr(program.Commands, "get_command", lambda *_: click.Command("doctor", callback=broken))
    result = run("doctor")
    assert result.returncode == 3
    assert result.stderr.count("\n") == 1
    assert "test_program.py:" in result.stderr
    assert "PROFSUITE_DEBUG=1" in result.stderr


def test_no_memory_names_the_remedy(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def hungry() -> None:
        raise MemoryError

    monkeypatch.setattr(program.Commands, "get_command", lambda *_: click.Command("doctor", callback=hungry))
    result = run("doctor")
    assert (result.returncode, "--max-memory" in result.stderr) == (2, True)


def test_an_error_of_several_lines_is_printed_as_one(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing() -> None:
        raise TraceError("a.json:\n  \x1b[31mbad\x07")

    monkeypatch.setattr(program.Commands, "get_command", lambda *_: click.Command("doctor", callback=failing))
    result = run("doctor")
    assert (result.returncode, result.stderr) == (2, "profsuite: a.json: [31mbad\n")


def test_one_line() -> None:
    assert one_line("a\r\n\tb\x9b31m\u2028c") == "a b 31m c"


def test_broken_pipe_is_silent(trace: Path) -> None:
    process = subprocess.Popen([*PROGRAM, "analyze", str(trace)], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    assert process.wait(60) == 141
    assert process.stderr.read() == b""
    process.stderr.close()


@pytest.mark.parametrize("args", [["--help"], ["analyze", "--help"]])
def test_help_into_a_broken_pipe_is_silent(args: list[str]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run([*PROGRAM, *args], stdout=writer, stderr=subprocess.PIPE, timeout=60)
    os.close(writer)
    assert (done.returncode, done.stderr) == (141, b"")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("args", [["--help"], ["completion", "bash"]])
def test_a_full_disk_is_one_line(args: list[str]) -> None:
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run([*PROGRAM, *args], stdout=full, stderr=subprocess.PIPE, timeout=60)
    assert (done.returncode, done.stderr) == (2, b"profsuite: No space left on device\n")


@pytest.mark.skipif(os.name == "nt", reason="descriptors of POSIX")
@pytest.mark.parametrize("closed", [">&-", "2>&-"])
def test_a_closed_output_is_no_fault(trace: Path, closed: str) -> None:
    done = subprocess.run(["sh", "-c", f'"$@" {closed}', "sh", *PROGRAM, "info", str(trace)], capture_output=True)
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.parametrize("args", [["analyze", "--format", "json", "-o"], ["report", "--html"]])
def test_the_input_is_never_written_over(run: Run, trace: Path, args: list[str]) -> None:
    before = trace.read_bytes()
    command, *options = args
    for given in (trace, trace.parent):
        done = run(command, given, *options, trace)
        assert (done.returncode, trace.read_bytes()) == (2, before)
        assert "trace.json: is what the command reads" in error_of(done)


def test_a_result_that_cannot_be_completed_leaves_the_former_one(
    run: Run, trace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = trace.with_name("result.txt")
    result.write_text("former")
    written = Path.write_text

    def full(path: Path, text: str, **options: str) -> int:
        written(path, text[:100], **options)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "write_text", full)
    done = run("analyze", trace, "-o", result)
    monkeypatch.undo()
    assert done.returncode == 2
    assert "No space left" in error_of(done)
    assert result.read_text() == "former"
    assert not [path.name for path in trace.parent.iterdir() if path.name.startswith(".")]


@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
def test_interrupt_is_one_line_and_130(tmp_path: Path) -> None:
    fifo = tmp_path / "trace.json"
    os.mkfifo(fifo)
    process = subprocess.Popen([*PROGRAM, "analyze", str(fifo)], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    with fifo.open("wb") as writer:  # opened once the reader is there
        writer.write(b'{"traceEvents": [' + b" " * 100_000)
        writer.flush()
        time.sleep(0.5)  # its threads wait for more
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert err.decode().strip() == "profsuite: interrupted"
    assert out == b""


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts(run: Run, shell: str) -> None:
    done = run("completion", shell)
    assert done.returncode == 0
    assert "_PROFSUITE_COMPLETE" in done.stdout


def test_completion_completes(run_process: Run) -> None:
    words = {"_PROFSUITE_COMPLETE": "bash_complete", "COMP_WORDS": "profsuite an", "COMP_CWORD": "1"}
    assert run_process(env=words).stdout == "plain,analyze\n"


def test_doctor(run: Run) -> None:
    done = run("doctor")
    assert done.returncode == 0
    assert done.stderr == ""
    labels = [line.split()[0] for line in done.stdout.splitlines()]
    assert labels[:3] == ["profsuite", "python", "reader"]
    assert {"numpy", "pyarrow", "isal", "duckdb", "torch", "gpu", "cache"} <= set(labels)
    assert "traces (0 B)" in done.stdout
