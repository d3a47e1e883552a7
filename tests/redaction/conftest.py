"""A recording with secrets planted wherever a trace can hold a text."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from profsuite.trace.columns import Text, strings, table_of
from profsuite.trace.load import load
from profsuite.trace.model import Trace
from profsuite.trace.schema import BY_NAME

SHARED = Path(__file__).parents[2].parent / "shared" / "traces"

KEYS = {
    "aws-key": "AKIAZ7QK3MPLVX2WN4TD",
    "aws-secret": "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",
    "github": "ghp_9fK2mQxR7vLpT4zB8nYcJdWg3HsAe5Uo1iNq",
    "gitlab": "glpat-x7Kp2mQvR9LtZ4Bn8YcJ",
    "hugging-face": "hf_QmXrVpLtZbNyCjDwGhSaEuOiKfTxRv7291",
    "openai": "sk-proj-T3xKp9mQvR2LtZ4Bn8YcJdWgHsAe5Uo1",
    "slack": "xoxb-204817364920-918273645501-Qx7Kp2mRvLtZ4Bn8YcJd",
    "google": "AIzaSyD9fK2mQxR7vLpT4zB8nYcJdWg3HsAe5Uo",
    "jwt": "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dBjftJeZ4CVPmB92K27uhbUJU1p1r",
    "stripe": "sk_live_4eC39HqLyjWDarjtT1zdp7dc",
    "wandb": "5f1c8a9e2b7d4c6f0a3e8b1d9c5f7a2e4b6d8c0f",
    "azure": "Zm9vYmFyYmF6cXV4MTIzNDU2Nzg5MGFiY2RlZg==",
    "pem": "MIIEpAIBAAKCAQEAx7Kp2mQvR9LtZ4Bn8YcJdWg3HsAe5Uo1iNqXrVpL",
    "password": "hunter2-correct-horse",
    "npm": "npm_x7Kp2mQvR9LtZ4Bn8YcJdWg3HsAe5Uo1iNqX",
}
"""Keys of fifteen kinds, made up."""

NAMES = ("quintavalle", "zbigniewska")
EMAILS = ("ursula.quintavalle@falconlabs.example.com", "ops+oncall@falconlabs.example.com")
HOSTS = ("gpu-hgx-0417.pod3.falconlabs.internal", "10.83.117.42", "gpu-hgx-0418")
PATHS = ("/home/quintavalle/falcon/pretrain", "/mnt/lustre/falcon-corpus/v7/shards", "C:\\Users\\zbigniewska\\falcon")

NEEDLES = (
    *KEYS.values(), *NAMES, *EMAILS, *HOSTS, "falconlabs", "ursula", "hgx-0417", "pod3", "falcon-corpus",
    "falcon/pretrain",
    "secret-bucket-17",
)  # fmt: skip
"""What no output at the level medium may hold."""

PEM = f"-----BEGIN RSA PRIVATE KEY-----\n{KEYS['pem']}\n-----END RSA PRIVATE KEY-----"
SENTENCES = (
    f"load {PATHS[1]}/part-0001.tar for {EMAILS[0]}",
    f"connect tcp://{HOSTS[0]}:29500 then {HOSTS[1]}",
    f"export AWS_ACCESS_KEY_ID={KEYS['aws-key']} AWS_SECRET_ACCESS_KEY={KEYS['aws-secret']}",
    f"git clone https://oauth2:{KEYS['github']}@git.falconlabs.example.com/ml/falcon.git",
    f"login {KEYS['hugging-face']} {KEYS['gitlab']}",
    f"Authorization: Bearer {KEYS['jwt']}",
    f"OPENAI_API_KEY={KEYS['openai']}; slack {KEYS['slack']}",
    f"DefaultEndpointsProtocol=https;AccountName=x;AccountKey={KEYS['azure']};EndpointSuffix=core.windows.net",
    f"key {KEYS['google']} and {KEYS['stripe']}",
    f"wandb login {KEYS['wandb']} --password {KEYS['password']}",
    f"node {HOSTS[2]}, user zbigniewska, s3://secret-bucket-17/falcon-corpus/x?token={KEYS['npm']}",
    PEM,
)
"""Every key, name, address, host and path, in the words that programs use."""


def _event(cat: str, name: str, ts: float, dur: float, tid: int = 1, pid: int = 100, **args: Any) -> dict[str, Any]:
    return {"ph": "X", "cat": cat, "name": name, "pid": pid, "tid": tid, "ts": ts, "dur": dur, "args": args}


def document(rank: int = 0) -> dict[str, Any]:
    """The recording as Kineto's JSON."""
    home = f"{PATHS[0]}/trainer_internal"
    everything = " | ".join(SENTENCES)
    events: list[dict[str, Any]] = [
        {"ph": "M", "name": "process_name", "pid": 100, "tid": 0, "args": {"name": f"python@{HOSTS[0]}"}},
        {"ph": "M", "name": "process_labels", "pid": 100, "tid": 0, "args": {"labels": f"CPU {HOSTS[2]}"}},
        {"ph": "M", "name": "thread_name", "pid": 100, "tid": 1, "args": {"name": f"thread 1 ({EMAILS[1]})"}},
        {"ph": "M", "name": "note", "pid": 100, "tid": 1, "args": {"password": KEYS["password"], "text": everything}},
    ]
    for step in (0, 1):
        at = 1000 + 2000 * step
        events += [
            _event("user_annotation", f"ProfilerStep#{step + 3}", at, 1900),
            _event("python_function", f"{home}.py(88): train_step", at + 5, 1800, **{"Python id": 1 + step}),
            _event(
                "cpu_op", "aten::mm", at + 20, 100,
                **{
                    "Input Dims": [[2, 3], [3, 2]], "Concrete Inputs": ["", *SENTENCES],
                    "Call stack": f"{home}.py(12): forward;{home}.py(88): train_step", "kernel_file": f"{home}.py",
                    "Module Hierarchy": f"TOP({EMAILS[0]}).{HOSTS[2]}",
                },
            ),
            _event("cuda_runtime", "cudaLaunchKernel", at + 40, 10, correlation=step + 1),
            _event("kernel", f"gemm_{KEYS['github']}", at + 60, 300, 7, 0, device=0, stream=7, correlation=step + 1),
            *(_event("user_annotation", text, at + 200 + 20 * i, 15) for i, text in enumerate(SENTENCES)),
            *(_event("cpu_op", f"op: {text}", at + 700 + 20 * i, 15) for i, text in enumerate(SENTENCES)),
            _event("gpu_user_annotation", SENTENCES[0], at + 60, 300, 7, 0),
            _event(f"custom {EMAILS[1]}", SENTENCES[1], at + 1100, 20, 2),
            _event(
                "cpu_op", "record_param_comms", at + 1200, 50,
                **{
                    "Collective name": "allreduce", "Process Group Name": HOSTS[2],
                    "Process Group Description": EMAILS[0],
                },
            ),
            {"ph": "C", "name": f"load of {HOSTS[0]}", "pid": 100, "ts": at, "args": {EMAILS[1]: 1 + step}},
            {"ph": "i", "s": "t", "name": SENTENCES[3], "pid": 100, "tid": 1, "ts": at + 3, "cat": "x"},
            {"ph": "s", "id": HOSTS[0], "name": EMAILS[0], "cat": "ac2g", "pid": 100, "tid": 1, "ts": at + 45},
            {"ph": "f", "id": HOSTS[0], "name": EMAILS[0], "cat": "ac2g", "pid": 0, "tid": 7, "ts": at + 60, "bp": "e"},
            {
                "ph": "i", "cat": "cpu_instant_event", "name": "[memory]", "s": "t", "pid": 100, "tid": 1,
                "ts": at + 205,
                "args": {"Addr": 4096 + step, "Bytes": 512, "Total Allocated": 512, "Total Reserved": 4096,
                         "Device Type": 1,
                         "Device Id": 0},
            },
        ]  # fmt: skip
    return {
        "schemaVersion": 1,
        "distributedInfo": {"backend": "nccl", "rank": rank, "world_size": 2},
        "baseTimeNanoseconds": 1_700_000_000_000_000_000,
        "deviceProperties": [{"id": 0, "name": f"NVIDIA H100 of {HOSTS[2]}", "totalGlobalMem": 85_000_000_000}],
        "hostname": HOSTS[0],
        "peer": {"host": HOSTS[2]},
        "user": "zbigniewska",
        "profsuite_recording": {
            "command": ["train.py", "--data", PATHS[1], "--token", KEYS["npm"], "--api-key=" + KEYS["openai"]],
            "environment": {"USER": "quintavalle", "WANDB_API_KEY": KEYS["wandb"], "RANK": str(rank), "HOME": PATHS[0]},
            "notes": list(SENTENCES), "windows": f"{PATHS[2]}\\train.py",
            "git": {"remote": "git@git.falconlabs.example.com:ml/falcon.git", "revision": "28e4563a" * 5},
        },
        "traceEvents": events,
    }  # fmt: skip


@pytest.fixture
def planted(tmp_path: Path) -> Path:
    """The recording's file; its own name, as TensorBoard's handler makes it, is a secret, too."""
    folder = tmp_path / "in" / "quintavalle"
    folder.mkdir(parents=True)
    path = folder / f"{HOSTS[2]}_4711.1700000000000.pt.trace.json"
    path.write_text(json.dumps(document()), encoding="utf-8")
    return path


@pytest.fixture
def planted_trace(planted: Path) -> Trace:
    """The recording as a trace, with rows in the tables that only the collector fills."""
    trace = load(planted, cache=False)
    rows: dict[str, dict[str, Any]] = {
        "compile_event": {
            "ts": np.array([1_000_000]), "dur": np.array([5_000]), "kind": _text("graph_break"),
            "frame_id": np.array([2]),
            "frame_compile_id": np.array([1]), "name": _text(SENTENCES[0]), "reason": _text(" | ".join(SENTENCES)),
            "file": _text(f"{PATHS[0]}/trainer_internal.py"), "line": np.array([88]),
        },
        "tensor": {
            "ts": np.array([1_000_000]), "device_type": np.array([1], np.int32), "device": np.array([0], np.int32),
            "address": np.array([4096]), "bytes": np.array([512]), "role": _text("parameter"), "name": _text(EMAILS[0]),
            "module": _text(HOSTS[0]),
        },
        "health": {
            "kind": _text("recording"), "count": np.array([1]), "byte_offset": np.array([-(2**63)]),
            "message": _text(" | ".join(SENTENCES)),
        },
    }  # fmt: skip
    made: dict[str, pa.Table] = {name: table_of(BY_NAME[name], columns) for name, columns in rows.items()}
    return replace(trace, tables={**trace.tables, **made}, _cache={})


def _text(word: str) -> Text:
    return Text(np.zeros(1, np.int32), strings([word]))


@pytest.fixture
def corpus() -> SimpleNamespace:
    """What was planted, by kind, and the function that makes the recording."""
    return SimpleNamespace(
        keys=KEYS, names=NAMES, emails=EMAILS, hosts=HOSTS, paths=PATHS, needles=NEEDLES, sentences=SENTENCES,
        document=document,
    )  # fmt: skip
