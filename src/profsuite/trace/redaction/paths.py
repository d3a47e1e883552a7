"""Paths of files: which part of them is public, and which is not."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from typing import Final

_SEP: Final = r"\s/\\:;\"'`()\[\]{}<>|*?\x00"
_PART: Final = rf"[^{_SEP}]+"
_BEFORE: Final = r"(?:(?<=[\s]-[ILF])|(?<=^-[ILF])|(?<![\w.~/\\+%@-]))"

FRAME_PATH: Final = re.compile(
    rf"{_BEFORE}(?:/(?!/)|[A-Za-z]:[\\/]|\\\\)[^;\n\"<>|(]{{1,512}}?\.(?:pyx?|ipynb)(?=\(\d{{1,9}}\))"
)
"""The file of a frame, ``/home/me/my job/train.py(88): main``, blanks and all."""

POSIX_PATH: Final = re.compile(
    rf"(?:{_BEFORE}~[\w.-]{{0,64}}(?=/)|(?<![:\w/])/(?=/)|{_BEFORE})"
    rf"(?:/{_PART}(?:[ ][^{_SEP}]{{1,64}}){{0,3}}(?=/))*+/(?:{_PART})?"
)
"""An absolute path, or one of a home folder; a part may hold blanks where another part follows."""

WINDOWS_PATH: Final = re.compile(
    rf"(?:(?<![A-Za-z0-9])[A-Za-z]:[\\/]|(?<![\w\\])\\\\(?=[\w.$-]+\\))"
    rf"(?:{_PART}(?:[ ][^{_SEP}]{{1,64}}){{0,3}}[\\/]+)*+(?:{_PART})?"
)

HOME: Final = re.compile(
    r"(?:(?<![\w.~-])/(?:[\w.-]{1,64}/){0,3}?(?:home|Users|users|people|homes|u)/|[A-Za-z]:[\\/]+Users[\\/]+|/torchinductor_)"
    r"(?P<user>[^\s/\\:;\"'()\[\]{}<>|,=]{1,64})"
)
"""A user's folder: the name after it is the user's."""

_SITE: Final = re.compile(r"(?:^|[\\/])(?:site|dist)-packages[\\/](?P<rest>.+)$")
_STDLIB: Final = re.compile(
    r"[\\/](?:lib(?:64)?[\\/](?P<version>python3(?:\.\d{1,2})?)|Lib)[\\/](?P<rest>[^\\/]+(?:[\\/].*)?)$"
)
_SOURCES: Final = re.compile(
    r"[\\/](?P<rest>torch[\\/](?:nn|optim|utils|autograd|cuda|distributed|profiler|jit|fx|func|ao|onnx|export|csrc|lib|amp"
    r"|_dynamo|_inductor|_functorch|_C|_ops\.py|_tensor\.py|_compile\.py|functional\.py|serialization\.py|multiprocessing)\b.*"
    r"|aten[\\/]src[\\/]ATen[\\/].+|c10[\\/](?:core|cuda|util|macros)[\\/].+"
    r"|triton[\\/](?:runtime|compiler|language|backends|testing)\b.*)$"
)
_SYSTEM: Final = re.compile(
    r"/(?:usr/)?(?:lib|lib32|lib64|bin|sbin|libexec)(?:/(?:[\w.+-]+-linux-gnu/)?[\w.+-]+(?:\.so[\w.]*)?)?/?"
    r"|/usr/local/cuda[\w.-]*(?:/(?:lib64|lib|bin|include|nvvm|extras|targets)(?:/[\w.+/-]*)?)?"
    r"|/opt/rocm[\w.-]*(?:/(?:lib|lib64|bin|include)(?:/[\w.+/-]*)?)?"
    r"|/dev/(?:null|zero|shm|kfd|dri|infiniband|nvidia[\w-]*|u?random)(?:/(?:renderD|card)\d+)?"
    r"|/proc/(?:self|cpuinfo|meminfo|stat|\d+)(?:/[\w]+)?|/sys/(?:class|devices|bus|fs|kernel)(?:/[\w.:-]+)?|/tmp/?|/"
)
"""Places that every machine has."""

_CODE: Final = (".py", ".pyx", ".ipynb", ".cpp", ".cc", ".cu", ".cuh", ".h", ".hpp", ".c")
"""Files whose name is kept at the level medium, since a frame without it says nothing."""

PUBLIC_PACKAGES: Final = frozenset((
    "torch", "torchvision", "torchaudio", "torchdata", "torchtitan", "torch_npu", "torch_xla", "torchmetrics",
    "functorch", "triton", "triton_kernels", "numpy", "scipy", "pandas", "pyarrow", "PIL", "cv2", "transformers",
    "tokenizers", "datasets", "accelerate", "safetensors", "huggingface_hub", "diffusers", "peft", "trl", "timm",
    "evaluate", "deepspeed", "megatron", "apex", "lightning", "pytorch_lightning", "lightning_fabric", "flash_attn",
    "xformers", "bitsandbytes", "vllm", "sglang", "flashinfer", "aiter", "tqdm", "ray", "dask", "distributed",
    "tensorboard", "wandb", "mlflow", "hydra", "omegaconf", "pytest", "_pytest", "IPython", "ipykernel",
    "jupyter_client", "tornado", "msgspec", "rich", "click", "requests", "urllib3", "fsspec", "psutil", "pynvml",
    "sympy", "networkx", "jinja2", "yaml", "einops", "regex", "sentencepiece", "nvidia", "cuda", "cutlass",
    "transformer_engine", "profsuite", "sklearn", "matplotlib", "setuptools", "pip",
))  # fmt: skip
"""Packages of the index that everybody uses; the level high keeps no others."""


@dataclass(frozen=True, slots=True)
class Split:
    """A path in two: what is shown as it is, ``public``, else its folder and its file name."""

    public: str | None
    folder: str = ""
    file: str = ""


def split(path: str, projects: tuple[str, ...]) -> Split:
    """What of an absolute path is public: within a project, an installed package, Python, torch, the system.

    ``projects`` are folders without a slash at the end.
    """
    plain = path.replace("\\", "/")
    for project in projects:
        if plain == project:
            return Split(".")
        if plain.startswith(project + "/") and "/../" not in plain:
            return Split(plain[len(project) + 1 :] or ".")
    if found := _SITE.search(plain):
        return Split(f"site-packages/{found['rest']}")
    if (found := _STDLIB.search(plain)) and is_stdlib(found["rest"]):
        return Split(f"{found['version'] or 'python3'}/{found['rest']}")
    if found := _SOURCES.search(plain):
        return Split(found["rest"])
    if _SYSTEM.fullmatch(plain) and "/../" not in plain:
        return Split(path)
    folder, _, file = plain.rstrip("/").rpartition("/")
    return Split(None, folder, file)


def is_code(file: str) -> bool:
    """Whether a file of that name holds source code."""
    return file.endswith(_CODE)


def ending(file: str) -> str:
    """The ending of a file's name, where it is one that says what kind of file it is: ``.csv``; else nothing."""
    found = re.search(r"(?<=[^.])(?:\.[A-Za-z][A-Za-z0-9]{0,7}){1,2}$", file[-24:])
    return found[0].lower() if found else ""


def is_stdlib(path: str) -> bool:
    """Whether a path below the folder of Python's library begins with one of its modules."""
    return path.replace("\\", "/").split("/")[0].removesuffix(".py") in sys.stdlib_module_names


def is_public_file(path: str) -> bool:
    """Whether a relative path is one of a package that everybody has: torch, Python itself."""
    plain = path.replace("\\", "/").removeprefix("site-packages/")
    plain = re.sub(r"^python3(?:\.\d{1,2})?/", "", plain)
    top = plain.split("/")[0].removesuffix(".py")
    return (top in PUBLIC_PACKAGES and "/" in plain) or is_stdlib(plain) or plain.startswith(("<frozen ", "<string>"))
