"""The level high: names that a project gave, of files, functions, modules, annotations and parameters."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from profsuite.trace.redaction import json_text
from profsuite.trace.redaction.paths import is_public_file
from profsuite.trace.redaction.torch_names import ANNOTATIONS, FUNCTIONS, MODULES

if TYPE_CHECKING:
    from collections.abc import Callable

    from profsuite.trace.redaction.json_text import Context
    from profsuite.trace.redaction.redactor import Redactor

    Namer = Callable[[str, Redactor, str], str]

_FRAME: Final = re.compile(
    r"(?<![\w./\\-])(?P<file>[^\s;()<>\"][^;()<>\"\n]{0,255}?\.(?:pyx?|ipynb|cpp|cc|cu|h)(?!\w))(?P<line>\((?:\d{1,9})\)|:\d{1,9})?"
    r"(?::[ ](?P<function>[^;\n\"]{1,512}))?"
)
_MODULE: Final = re.compile(r"nn\.Module: (?P<module>[^\s;]{1,256}?)(?P<number>_\d{1,9})?(?=$|[\s;])")
_PLAIN: Final = re.compile(r"[\s\d.,:()\[\]{}+-]*")
_NUMBER: Final = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?j?", re.IGNORECASE)
_THREAD: Final = re.compile(
    r"(?:(?:main )?thread|stream|device|plane|group|gpu|cpu|npu|mtia|hpu|dma_\w+|spans?|traces?|torch\.compile)?"
    r"[\s\d]*(?:FW)?(?:\((?:i?python[\d.]*|pt_\w+)\))?",
    re.IGNORECASE,
)
_PROCESS: Final = re.compile(
    r"(?:i?python[\d.]*|(?:CPU|GPU|NPU|XPU|MTIA|HPU) ?\d*|CUPTI Overhead|Ascend Hardware|Spans|Traces|CANN|HBM"
    r"|LLC|\d*)",
    re.IGNORECASE,
)


def frames(text: str, redactor: Redactor, column: str) -> str:
    """Frames and modules of the project inside a text; those of torch, Python and well-known packages stay."""

    def frame(found: re.Match[str]) -> str:
        file = found["file"]
        if is_public_file(file) or file in redactor.pseudonyms.issued:
            return found[0]
        ending = file[file.rfind(".") :]
        shown = redactor.named("file", file, column) + ending + (found["line"] or "")
        if found["function"] is None:
            return shown
        return f"{shown}: {function(found['function'], redactor, column)}"

    def module_call(found: re.Match[str]) -> str:
        return f"nn.Module: {module(found['module'], redactor, column)}{found['number'] or ''}"

    if "." not in text:
        return text
    return _MODULE.sub(module_call, _FRAME.sub(frame, text))


def function(text: str, redactor: Redactor, column: str) -> str:
    """A function's name, but one that Python or torch gave."""
    name = text.rpartition(".")[2]
    known = name in FUNCTIONS or (name.startswith("__") and name.endswith("__")) or text.startswith("<")
    return (name if known else redactor.named("function", text, column)) if text else text


def module(text: str, redactor: Redactor, column: str) -> str:
    """The class of a module, but one of torch."""
    return text if not text or text in MODULES else redactor.named("module", text, column)


def annotation(text: str, redactor: Redactor, column: str) -> str:
    """A mark of the program, but one that torch or profsuite made."""
    return text if not text or ANNOTATIONS.match(text) else redactor.named("annotation", text, column)


def _whole(kind: str) -> Namer:
    def name(text: str, redactor: Redactor, column: str) -> str:
        return text if _PLAIN.fullmatch(text) else redactor.named(kind, text, column)

    return name


def _file(text: str, redactor: Redactor, column: str) -> str:
    if not text or is_public_file(text) or text.startswith("<"):
        return text
    return redactor.named("file", text, column)


def _inputs(text: str, redactor: Redactor, column: str) -> str:
    """Values of scalar inputs: numbers and flags stay, other texts do not."""

    def value(word: str, context: Context) -> str:
        if (
            context.bare
            or word in ("True", "False", "None", "")
            or _PLAIN.fullmatch(word)
            or _NUMBER.fullmatch(word)
            or word in _INPUT_WORDS
        ):
            return word
        return redactor.named("text", word, column)

    return json_text.substitute(text, value)


_INPUT_WORDS: Final = frozenset(
    ("mean", "sum", "none", "inf", "-inf", "nan", "floor", "trunc", "tanh", "cuda", "cpu", "strided")
)


def _unless(pattern: re.Pattern[str], kind: str) -> Namer:
    def name(text: str, redactor: Redactor, column: str) -> str:
        return text if pattern.fullmatch(text.strip()) else redactor.named(kind, text, column)

    return name


def fact(scope: str, key: str, text: str, redactor: Redactor, column: str) -> str:
    """One value of the metadata: names of threads and processes as in their tracks; the file's own keys that no
    profiler writes lose every text but numbers and flags.
    """
    if key == "name" and scope in ("thread_name", "process_name"):
        return NAMERS["track", scope](text, redactor, column)
    if scope != "file" or key in _PROFILERS_KEYS:
        return frames(text, redactor, column)

    def value(word: str, context: Context) -> str:
        if context.is_key or context.bare or _PLAIN.fullmatch(word) or word.lower() in ("true", "false", "none"):
            return word
        return word if word in redactor.pseudonyms.issued else redactor.named("text", word, column)

    return json_text.substitute(text, value)


_PROFILERS_KEYS: Final = frozenset((
    "schemaVersion", "displayTimeUnit", "distributedInfo", "deviceProperties", "baseTimeNanoseconds", "trace_id",
    "INFO", "WARNING", "ERROR", "VERBOSE", "profsuite", "systemTraceEvents",
))  # fmt: skip
"""Keys of the file that profilers write, whose texts say nothing of a project but in frames."""


NAMERS: Final[dict[tuple[str, str], Namer]] = {
    ("op", "module_hierarchy"): _whole("module"),
    ("op", "concrete_inputs"): _inputs,
    ("op", "kernel_file"): _file,
    ("track", "thread_name"): _unless(_THREAD, "thread"),
    ("track", "process_name"): _unless(_PROCESS, "process"),
    ("instant", "name"): annotation,
    ("compile_event", "name"): function,
    ("compile_event", "reason"): _whole("reason"),
    ("compile_event", "file"): _file,
    ("tensor", "name"): _whole("parameter"),
    ("tensor", "module"): module,
    ("snapshot frame", "name"): function,
    ("snapshot frame", "file"): _file,
    ("snapshot entry", "user_metadata"): _whole("text"),
}
"""What names columns have, beyond the frames that any text may hold."""
