"""What the README tells a reader to type works, and what it points at is there."""

import os
import re
import shlex
import shutil
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

import profsuite

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
SAMPLES = ROOT / "sample_traces"


@pytest.fixture
def folder(tmp_path):
    """A folder as the README's examples take for granted."""
    shutil.copy(SAMPLES / "gpu_ddp_one_rank" / "rank_0.json.gz", tmp_path / "trace.json.gz")
    shutil.copytree(SAMPLES / "gpu_ddp_slow_rank", tmp_path / "run_folder")
    return tmp_path


def blocks(language):
    """The code blocks of a language, in order."""
    found = re.findall(r"^```(\w*)\n(.*?)^```$", README, re.DOTALL | re.MULTILINE)
    return [text for name, text in found if name == language]


COMMANDS = [
    line.partition("  #")[0].strip()
    for block in blocks("")
    for line in block.splitlines()
    if line.startswith("profsuite ")
]


def test_there_are_commands():
    assert len(COMMANDS) >= 4


def run(command, folder):
    """The command in a shell that finds profsuite, once it has ended."""
    return subprocess.run(command, shell=True, cwd=folder, capture_output=True, text=True, env=environment(folder))


def environment(folder):
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return os.environ | {"PATH": path, "PROFSUITE_CACHE": str(folder / "cache"), "OMP_NUM_THREADS": "1"}


@pytest.mark.parametrize(
    "command",
    [c for c in COMMANDS if not c.startswith(("profsuite dashboard", "profsuite record")) and "runs/train" not in c],
)
def test_commands(command, folder):
    if command.startswith("profsuite query"):
        pytest.importorskip("duckdb")
    if "--baseline" in command:
        assert run("profsuite check trace.json.gz --save-baseline baseline.json", folder).returncode == 0
    done = run(command, folder)
    # --fail-on critical: the sample job waits for input
    assert done.returncode == (1 if "--fail-on" in command else 0), done.stderr
    for name in re.findall(r"(?:--output|--html|-o|>) (\S+\.\S+)", command):
        assert (folder / name).stat().st_size > 1000


def test_dashboard(folder):
    pytest.importorskip("dash")
    command = next(c for c in COMMANDS if c.startswith("profsuite dashboard"))
    server = subprocess.Popen(
        shlex.split(f"{command} --no-browser --port 0"),
        cwd=folder, env=environment(folder), stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        address = re.search(r"http://\S+", server.stdout.readline())[0]
        with urllib.request.urlopen(address, timeout=60) as answer:
            assert b"profsuite" in answer.read()
    finally:
        server.terminate()
        server.communicate()


def test_recording_a_script(folder):
    pytest.importorskip("torch", reason="torch is not installed")
    (folder / "train.py").write_text(
        "import sys, torch\n"
        "net = torch.nn.Linear(8, 8)\n"
        "optimizer = torch.optim.SGD(net.parameters(), float(sys.argv[2]))\n"
        "for _ in range(16):\n"
        "    net(torch.ones(4, 8)).sum().backward()\n"
        "    optimizer.step()\n"
    )
    for command in (c for c in COMMANDS if c.startswith("profsuite record") or "runs/train" in c):
        done = run(command, folder)
        assert done.returncode == 0, done.stderr
    numbers = profsuite.load(folder / "runs" / "train").array("step", "number").tolist()
    assert numbers == [10, 11, 12, 13, 14]


def test_python_example(folder):
    code = next(block for block in blocks("python") if "profsuite.load" in block)
    done = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("The job waits for input")


def test_recording_example(folder, monkeypatch):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    monkeypatch.chdir(folder)
    monkeypatch.setenv("PROFSUITE_CACHE", str(folder / "cache"))
    code = next(block for block in blocks("python") if "profsuite.profile" in block)
    layer = torch.nn.Linear(8, 8)
    exec(code, {"loader": [torch.ones(4, 8)] * 3, "train_step": lambda batch: layer(batch).sum().backward()})
    trace = profsuite.load(folder / "runs" / "exp1")
    assert trace.num_rows("step") == 3
    assert "aten::linear" in trace.words("slice", "name")


@pytest.mark.parametrize(
    "page", ["README.md", "CONTRIBUTING.md", *(p.relative_to(ROOT) for p in ROOT.glob("docs/*.md"))], ids=str
)
def test_links_lead_somewhere(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    for link in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", text):
        if "://" not in link:
            assert ((ROOT / page).parent / link).exists(), f"{page}: {link}"
