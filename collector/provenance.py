"""Where a recording comes from: versions, git revision, command line, environment; without secrets."""

from __future__ import annotations

import math
import os
import platform
import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Any, Final

from profsuite import __version__

HIDDEN: Final = "(left out)"

SECRET_WORDS: Final = frozenset((
    "key", "keys", "token", "pwd", "pass", "pat", "sas", "auth", "bearer", "cookie", "session", "dsn", "salt", "cert",
    "private", "signature",
))  # fmt: skip
SECRET_PARTS: Final = ("secret", "passw", "passphrase", "credential", "apikey", "accesskey", "authtoken", "webhook")
"""Words, and parts of words, in names of variables and options whose values are never stored."""

SECRET_VALUE: Final = re.compile(
    r"(?:sk|pk|rk|hf|gh[pousr]|github_pat|glpat|xox[abprs]|npm|pypi|ya29|dop_v1|wandb)[-_][A-Za-z0-9_-]{8,}"
    r"|AKIA[0-9A-Z]{12,}|AIza[0-9A-Za-z_-]{20,}|eyJ[A-Za-z0-9_-]{8,}\.|-----BEGIN|[Bb]earer\s+\S"
)
"""Values that look like keys of known services."""

URL_LOGIN: Final = re.compile(r"(?<=://)[^/@\s]*@")
URL_QUERY: Final = re.compile(r"(?<=\?)[^\s#]+")

WANTED: Final = re.compile(
    r"^(?:(?:CUDA|NVIDIA|NCCL|GLOO|TORCH|TORCHELASTIC|TORCHINDUCTOR|PYTORCH|OMP|MKL|KMP|GOMP|OPENBLAS|NUMEXPR|XLA|HIP|ROCM|"
    r"ROCR|HSA|UCX|FI|TRITON|KINETO|PROFSUITE|SLURM|MALLOC|MPI|OMPI|PMI)_.*|CUBLAS_.*|CUDNN_.*|PYTHON(?:HASHSEED|UNBUFFERED|"
    r"MALLOC|FAULTHANDLER|OPTIMIZE|WARNINGS)|(?:LOCAL_|GROUP_|ROLE_)?(?:RANK|WORLD_SIZE)|ROLE_NAME|MASTER_PORT|"
    r"LD_PRELOAD|CONDA_DEFAULT_ENV)$"
)
"""The variables that change how a job runs.  All others stay out: a list of what is wanted cannot leak the rest."""

PACKAGES: Final = (
    "torch", "numpy", "triton", "lightning", "pytorch-lightning", "transformers", "accelerate", "deepspeed",
    "torchvision", "torchaudio", "flash-attn", "nvidia-nccl-cu12", "nvidia-cudnn-cu12", "nvidia-cuda-cupti-cu12",
    "nvidia-cuda-cupti",
)  # fmt: skip

LONGEST: Final = 2000
"""Characters of a value that are kept."""


def provenance(script: str | None = None) -> dict[str, Any]:
    """Versions, machine, command line, chosen environment and the git revision of the script's repository."""
    path = script or getattr(sys.modules.get("__main__"), "__file__", None)
    return {
        "profsuite": __version__,
        "python": platform.python_version(),
        "packages": versions(),
        "torch_build": torch_build(),
        "platform": platform.platform(),
        "cpu_count": os.cpu_count(),
        "pid": os.getpid(),
        "command": command(sys.argv),
        "environment": environment(dict(os.environ)),
        "script": None if path is None else Path(path).name,
        "git": None if path is None else git(Path(path).parent),
    }


def versions() -> dict[str, str]:
    """The versions of the packages that matter to a training job, of those installed."""
    found = {}
    for name in PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def torch_build() -> dict[str, Any] | None:
    """What torch was built for; None where it is not loaded."""
    torch = sys.modules.get("torch")
    if torch is None:
        return None
    return {
        "git": getattr(torch.version, "git_version", None),
        "cuda": torch.version.cuda,
        "hip": getattr(torch.version, "hip", None),
        "threads": torch.get_num_threads(),
        "interop_threads": torch.get_num_interop_threads(),
    }


def git(folder: Path) -> dict[str, Any] | None:
    """Revision, branch and whether files were changed, of the repository around a folder; None outside of one."""

    def ask(*words: str) -> str | None:
        # Another's repository may run programs through its configuration: nothing here reads files but git's own.
        environ = os.environ | {"GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0"}
        try:
            done = subprocess.run(  # noqa: S603
                ["git", "-c", "core.fsmonitor=false", *words],  # noqa: S607
                cwd=folder,
                capture_output=True,
                text=True,
                timeout=5,
                check=False,
                env=environ,
            )
        except (OSError, subprocess.SubprocessError):
            return None
        return done.stdout.strip() if done.returncode == 0 else None

    revision = ask("rev-parse", "HEAD")
    if not revision:
        return None
    status = ask("status", "--porcelain", "--untracked-files=no")
    return {
        "revision": revision,
        "branch": ask("rev-parse", "--abbrev-ref", "HEAD"),
        "changed": None if status is None else bool(status),
        "remote": without_login(ask("config", "--get", "remote.origin.url")),
    }


def without_login(url: str | None) -> str | None:
    """A URL without user, password and query."""
    return None if url is None else URL_QUERY.sub(HIDDEN, URL_LOGIN.sub("", url))


def is_secret_name(name: str) -> bool:
    """Whether a variable or option of this name may hold a secret."""
    spread = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()
    return any(part in spread for part in SECRET_PARTS) or bool(set(re.findall(r"[a-z]+", spread)) & SECRET_WORDS)


def looks_secret(value: str) -> bool:
    """Whether a value looks like a key: by the marks of known services, or as random as one.

    A run of 20 characters or more of letters and digits, both, of an entropy above 3.5 bits a character
    (hexadecimal of 32 and more: above 3) counts as random; words, paths and numbers stay below.
    """
    if SECRET_VALUE.search(value):
        return True
    for run in re.findall(r"[A-Za-z0-9+=_-]{20,}", value):
        if not (re.search(r"[0-9]", run) and re.search(r"[A-Za-z]", run)):
            continue
        bits = entropy(run)
        if re.fullmatch(r"[0-9a-fA-F-]{32,}", run):
            if bits > 3:
                return True
        elif bits > 3.5 and longest_word(run) < 8:
            return True
    return False


def longest_word(text: str) -> int:
    """Length of the longest run of letters of one case, as words have."""
    return max((len(word) for word in re.findall(r"[a-z]+|[A-Z]+", text)), default=0)


def entropy(text: str) -> float:
    """Shannon's entropy of the characters, bits a character."""
    counts = [text.count(c) for c in set(text)]
    return -sum(n / len(text) * math.log2(n / len(text)) for n in counts)


def clean(value: str) -> str:
    """A value that may be stored: secrets hidden, logins in URLs removed, cut at ``LONGEST``."""
    value = without_login(value) or ""
    if looks_secret(value):
        return HIDDEN
    return value if len(value) <= LONGEST else value[:LONGEST] + "…"


def command(argv: list[str]) -> list[str]:
    """The command line with secret values hidden: ``--token X``, ``--token=X``, ``key=X`` and random words."""
    out: list[str] = []
    hide_next = False
    for word in argv:
        name, equals, value = word.partition("=")
        is_option = word.startswith("-")
        if hide_next and not is_option:
            out.append(HIDDEN)
        elif equals:
            out.append(f"{name}={HIDDEN if is_secret_name(name) else clean(value)}")
        else:
            out.append(clean(word))
        hide_next = is_option and not equals and is_secret_name(name)
    return out


def environment(variables: dict[str, str]) -> dict[str, str]:
    """The variables that change how a job runs, secrets hidden."""
    return {
        name: HIDDEN if is_secret_name(name) and name not in ("TORCHELASTIC_RUN_ID",) else clean(value)
        for name, value in sorted(variables.items())
        if WANTED.match(name)
    }
