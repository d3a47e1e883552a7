"""Where something is, in words: the label of a thread, the line of the user's code around a slice."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from profsuite.trace.model import Trace

_FRAME = re.compile(r"^(?P<file>[^<>]+\.py)\(\d+\): ")
_LIBRARY = re.compile(
    r"(?:^|/)(?:torch(?:inductor_[^/]*)?|site-packages|dist-packages|contextlib\.py|threading\.py|runpy\.py|importlib"
    r"|profsuite/(?:collector/|cli/|__(?:init|main)__\.py)|collector/channels/dataloader\.py)(?:/|\b)"
)


MAIN_THREAD = "main thread"
_UNNAMED = re.compile(r"thread \d+(?: \(.*\))?", re.DOTALL)


def thread_label(trace: Trace, track_id: int) -> str:
    """What to call a thread: its name if the file gives one of its own, else its role, else ``thread <tid>``.

    A process's first thread has the process's number on Linux, and is the main one; a number of 0 stands for a thread
    that the recorder did not know.  ``thread <tid> (<command>)``, as Kineto writes it, names the process's command
    rather than the thread.
    """
    row = trace.tracks.slice(track_id, 1).to_pylist()[0]
    name, tid = row["thread_name"], row["tid"]
    if is_first_thread(row) and (not name or _UNNAMED.fullmatch(name)):
        return MAIN_THREAD
    return str(name) if name else f"thread {tid}"


def is_first_thread(track: Mapping[str, Any]) -> bool:
    """Whether a row of ``track`` is the first thread of its process, by its number."""
    tid = track["tid"]
    return bool(track["kind"] == "host" and tid == track["pid"] and tid.isdecimal() and tid.strip("0"))


def is_user_frame(name: str) -> bool:
    """Whether a slice of this name is a Python frame of the user's own code."""
    frame = _FRAME.match(name)
    return frame is not None and not _LIBRARY.search(frame["file"])


def source_frame(trace: Trace, slice_id: int) -> str | None:
    """The innermost Python frame of the user's own code around a slice, as recorded; null without stacks.

    Frames of torch, of installed packages and of the interpreter do not count, unless there is no other.
    """
    row = source_row(trace, slice_id)
    return None if row is None else str(trace.words("slice", "name")[trace.array("slice", "name")[row]])


def source_row(trace: Trace, slice_id: int) -> int | None:
    """The slice of ``source_frame``."""
    names, name = trace.words("slice", "name"), trace.array("slice", "name")
    parent = trace.array("slice", "parent_id")
    library: int | None = None
    row = int(parent[slice_id])
    while row >= 0:
        frame = _FRAME.match(str(names[name[row]]))
        if frame and not _LIBRARY.search(frame["file"]):
            return row
        if frame and library is None:
            library = row
        row = int(parent[row])
    return library


def own_frame(frames: Iterable[str]) -> str | None:
    """Of the frames of a stack (``file(line): function``, innermost first) the innermost of the user's own code.

    The innermost one of a library where there is no other; null of an empty stack.
    """
    library: str | None = None
    for text in frames:
        frame = _FRAME.match(text)
        if frame and not _LIBRARY.search(frame["file"]):
            return text
        library = library or (text if frame else None)
    return library


def is_frame(name: str) -> bool:
    """Whether a slice of this name is a Python frame."""
    return _FRAME.match(name) is not None


def is_own_frame(name: str) -> bool:
    """Whether a slice of this name is a Python frame of the user's own code."""
    frame = _FRAME.match(name)
    return frame is not None and not _LIBRARY.search(frame["file"])
