"""Where a recording comes from, and that no secret gets into it."""

import json
import subprocess

import pytest

from profsuite.collector.provenance import (
    HIDDEN,
    command,
    environment,
    git,
    is_secret_name,
    looks_secret,
    provenance,
    without_login,
)

RANDOM = "q8Zr2LmX0vTb7NcY4KsW1pHd9GfJ"


@pytest.mark.parametrize(
    "name",
    ["HF_TOKEN", "WANDB_API_KEY", "AWS_SECRET_ACCESS_KEY", "password", "--passwd", "DB_PASS", "PGPASSWORD", "apikey",
     "AUTH", "--hub-token", "PRIVATE_KEY", "client_secret", "SESSION_COOKIE", "--key", "SENTRY_DSN"],
)  # fmt: skip
def test_names_of_secrets(name):
    assert is_secret_name(name)


@pytest.mark.parametrize(
    "name",
    ["NCCL_DEBUG", "OMP_NUM_THREADS", "CUDA_VISIBLE_DEVICES", "--lr", "--epochs", "RANK", "MASTER_PORT", "--keyframe",
     "--max-tokens", "TOKENIZERS_PARALLELISM", "--compass"],
)  # fmt: skip
def test_names_of_no_secrets(name):
    assert not is_secret_name(name)


@pytest.mark.parametrize(
    "value",
    [RANDOM, "hf_" + "a" * 20, "sk-abcdefgh12345678", "ghp_abcdefghijklmn", "AKIAIOSFODNN7EXAMPLE", f"x={RANDOM}",
     "0123456789abcdef0123456789abcdef", "Bearer abc", "eyJhbGciOiJI.x.y", "-----BEGIN RSA PRIVATE KEY-----"],
)  # fmt: skip
def test_values_of_secrets(value):
    assert looks_secret(value)


@pytest.mark.parametrize(
    "value",
    ["train.py", "/data/imagenet/train", "--learning-rate=0.0001", "expandable_segments:True,max_split_size_mb:512",
     "transformer_base_en_de_2017", "configs/experiment_2024_resnet50.yaml", "12345678901234567890123", "cuda:0"],
)  # fmt: skip
def test_values_of_no_secrets(value):
    assert not looks_secret(value)


def test_command_lines():
    argv = [
        "train.py",
        "--lr",
        "0.1",
        "--token",
        "abc",
        "--api-key=xyz",
        "--password",
        "--data",
        "s3://u:p@host/x",
        RANDOM,
        "a=b",
    ]
    assert command(argv) == [
        "train.py", "--lr", "0.1", "--token", HIDDEN, f"--api-key={HIDDEN}", "--password", "--data", "s3://host/x",
        HIDDEN, "a=b",
    ]  # fmt: skip


def test_environment_holds_only_what_matters():
    given = {
        "NCCL_DEBUG": "INFO", "RANK": "3", "HOME": "/home/x", "MY_SETTING": "1", "WANDB_API_KEY": "abc",
        "TORCH_AUTH": "s",
        "NCCL_CONF": RANDOM, "OMP_NUM_THREADS": "4", "PYTORCH_ALLOC_CONF": "expandable_segments:True",
    }  # fmt: skip
    assert environment(given) == {
        "NCCL_CONF": HIDDEN, "NCCL_DEBUG": "INFO", "OMP_NUM_THREADS": "4",
        "PYTORCH_ALLOC_CONF": "expandable_segments:True", "RANK": "3", "TORCH_AUTH": HIDDEN,
    }  # fmt: skip


def test_urls_lose_their_login_and_query():
    assert without_login("https://me:pw@git.example/a.git") == "https://git.example/a.git"
    assert without_login("https://x/y?sig=abc&b=1#f") == f"https://x/y?{HIDDEN}#f"
    assert without_login(None) is None


def test_git(tmp_path):
    assert git(tmp_path / "none") is None
    words = ["git", "-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"]
    repository = tmp_path / "r"
    repository.mkdir()
    for more in (["init", "-q", "-b", "topic"], ["commit", "-q", "--allow-empty", "-m", "x"],
                 ["remote", "add", "origin", "https://me:pw@git.example/a.git"]):  # fmt: skip
        subprocess.run([*words, *more], cwd=repository, check=True, capture_output=True)
    found = git(repository)
    assert found["branch"] == "topic"
    assert len(found["revision"]) == 40
    assert found["changed"] is False
    assert found["remote"] == "https://git.example/a.git"


def test_all_of_it_is_json(monkeypatch, tmp_path):
    monkeypatch.setattr("sys.argv", ["train.py", "--hub_token", "hunter2"])
    monkeypatch.setenv("CUDA_SECRET", "hunter2")
    text = json.dumps(provenance(str(tmp_path / "train.py")))
    assert "hunter2" not in text
    assert '"script": "train.py"' in text
