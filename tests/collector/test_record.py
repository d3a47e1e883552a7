"""``profsuite record``: unchanged scripts, as users start them."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

import profsuite

torch = pytest.importorskip("torch", reason="torch is not installed")

TRAIN = """
import os, sys, torch
net = torch.nn.Linear(8, 8)
other = torch.optim.SGD(net.parameters(), lr=0.0)
opt = torch.optim.Adam(net.parameters(), lr=0.1)
for i in range(12):
    net(torch.ones(2, 8)).sum().backward()
    opt.step()
    other.step()
    opt.zero_grad()
print(sys.argv[1:], __name__, __file__, os.path.basename(sys.path[0]))
"""

FAST = ("--engine", "kineto", "--channel", "gc")


def run(folder, *words, code=0, **environ):
    done = subprocess.run(
        [sys.executable, "-m", "profsuite", "record", *words],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
        env=os.environ | environ,
    )
    assert done.returncode == code, done.stderr
    return done


def numbers(path):
    return profsuite.load(path).steps.column("number").to_pylist()


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "train.py").write_text(TRAIN)
    return tmp_path


def test_steps_of_an_unchanged_script(folder):
    done = run(folder, "--steps", "4:6", *FAST, "train.py", "--lr", "1", "--steps", "x", "--help")
    file = folder / "train.py"
    assert done.stdout.strip() == f"['--lr', '1', '--steps', 'x', '--help'] __main__ {file} {folder.name}"
    assert numbers(folder / "runs" / "train") == [4, 5]
    trace = profsuite.load(folder / "runs" / "train")
    words = trace.words("slice", "name")
    names = [words[code] for code in trace.array("slice", "name")]
    assert names.count("Optimizer.step#Adam.step") == 2
    # A step holds its optimizer step whole.
    assert not [kind for kind in trace.health.column("kind").to_pylist() if kind in ("out_of_order", "unclosed")]
    assert "profsuite analyze runs/train/rank_0" in done.stderr
    facts = json.loads((folder / "runs" / "train" / "rank_0" / "recording.json").read_text())
    assert facts["origin"]["script"] == "train.py"


def test_everything_and_where(folder):
    run(folder, *FAST, "-o", "out/a", "train.py")
    # What follows the last optimizer step is no step.
    assert numbers(folder / "out" / "a") == list(range(12))


def test_a_module(folder):
    package = folder / "mine"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "job.py").write_text(TRAIN)
    done = run(folder, *FAST, "-m", "mine.job", "-x")
    assert done.stdout.startswith("['-x'] __main__")
    assert len(numbers(folder / "runs" / "job")) == 12


def test_a_script_finds_what_python_gives_it(folder):
    (folder / "words.py").write_text(
        "import sys\n"
        "words = {k: v for k, v in globals().items() if k.startswith('__') and k != '__annotations__'}\n"
        "print(sys.argv, sys.path[0], type(__builtins__).__name__, __loader__.get_filename(), sorted(words))\n"
        "def typed(number: int): pass\n"
        "print(typed.__annotations__)\n"
        "print(__file__, __spec__, __package__, sys.modules['__main__'].words is words)\n"
    )
    plain = subprocess.run([sys.executable, "words.py", "a"], cwd=folder, capture_output=True, text=True, check=True)
    assert run(folder, *FAST, "words.py", "a").stdout == plain.stdout


def test_the_scripts_own_exception_and_exit_code(folder):
    (folder / "fails.py").write_text(TRAIN + "\ndef f():\n    raise KeyError('mine')\nf()\n")
    done = run(folder, *FAST, "fails.py", code=1)
    lines = [line for line in done.stderr.splitlines() if line.startswith(("Traceback", "  File", "KeyError"))]
    assert [line.partition(", line")[0] for line in lines[:3]] == [
        "Traceback (most recent call last):",
        f'  File "{folder / "fails.py"}"',
        f'  File "{folder / "fails.py"}"',
    ]
    assert lines[3] == "KeyError: 'mine'"
    assert len(numbers(folder / "runs" / "fails")) == 12
    (folder / "exits.py").write_text(TRAIN + "\nsys.exit(7)\n")
    run(folder, *FAST, "exits.py", code=7)
    assert len(numbers(folder / "runs" / "exits")) == 12
    (folder / "broken.py").write_text("a = = 1\n")
    done = run(folder, *FAST, "broken.py", code=1)
    assert "SyntaxError" in done.stderr
    assert "fault of profsuite" not in done.stderr


def test_a_script_that_leaves_at_once(folder):
    (folder / "leaves.py").write_text(TRAIN + "if os.fork() == 0: os._exit(3)\nos.wait(); os._exit(7)\n")
    done = run(folder, *FAST, "leaves.py", code=7)
    assert "Traceback" not in done.stderr
    assert len(numbers(folder / "runs" / "leaves")) == 12


def test_a_script_without_an_optimizer(folder):
    (folder / "infer.py").write_text("import torch\nfor _ in range(3): torch.ones(3) + 1\n")
    done = run(folder, *FAST, "infer.py")
    assert "no optimizer step was seen" in done.stderr
    assert profsuite.load(folder / "runs" / "infer").num_rows("slice") > 3


def test_wrong_command_lines(folder):
    assert "no such file" in run(folder, "none.py", code=2).stderr
    assert "holds no step" in run(folder, "--steps", "5:5", "train.py", code=2).stderr
    assert not (folder / "runs").exists()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signals(folder, number):
    (folder / "long.py").write_text(
        TRAIN.replace("range(12)", "range(10**9)").replace(
            "    opt.step()", "    opt.step()\n    if i == 20: print('ready', flush=True)"
        )
    )
    job = subprocess.Popen(
        [sys.executable, "-m", "profsuite", "record", *FAST, "long.py"],
        cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert job.stdout.readline() == "ready\n"
    job.send_signal(number)
    _, errors = job.communicate(timeout=60)
    assert job.returncode == (-15 if number == signal.SIGTERM else 130), errors
    assert len(numbers(folder / "runs" / "long")) >= 20
    assert ("KeyboardInterrupt" in errors) == (number == signal.SIGINT)


def test_torchrun(folder):
    (folder / "ddp.py").write_text(
        "import torch.distributed as dist\ndist.init_process_group('gloo')\n"
        "from torch.nn.parallel import DistributedDataParallel as DDP\n"
        + TRAIN.replace("net = torch.nn.Linear(8, 8)", "net = DDP(torch.nn.Linear(8, 8))")
        + "\ndist.destroy_process_group()\n"
    )
    words = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--nproc-per-node",
        "2",
        "--standalone",
        "-m",
        "profsuite",
        "record",
    ]
    for _ in range(2):
        done = subprocess.run(
            [*words, *FAST, "--steps", "4:6", "ddp.py"], cwd=folder, capture_output=True, text=True, timeout=180,
            env=os.environ | {"OMP_NUM_THREADS": "1"},
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
    for name in ("ddp", "ddp-2"):
        files = profsuite.find_ranks(folder / "runs" / name)
        assert [file.rank for file in files] == [0, 1]
        for file in files:
            trace = profsuite.load(file.path)
            assert (trace.info.rank, trace.info.world_size, trace.info.backend) == (file.rank, 2, "gloo")
            assert numbers(file.path) == [4, 5]


def test_the_hook_leaves_nothing(folder):
    from torch.autograd.profiler import record_function
    from torch.optim import optimizer as module

    from profsuite.collector.script import OptimizerSteps

    before = record_function.__exit__, dict(module._global_optimizer_post_hooks)
    net = torch.nn.Linear(2, 2)
    first, second = (torch.optim.SGD(net.parameters()) for _ in range(2))
    seen = []
    with OptimizerSteps(lambda: seen.append(time.time())) as steps:
        for optimizer in (first, second, first):
            optimizer.step()
    assert (len(seen), steps.count) == (2, 2)
    assert (record_function.__exit__, dict(module._global_optimizer_post_hooks)) == before
