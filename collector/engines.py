"""What a recording is made of, loaded: engines, the extractor, side channels; or why one of them cannot be had."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from profsuite.errors import ProfsuiteError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from profsuite.collector.config import Config


def has_gpu() -> bool:
    """Whether torch can use a CUDA device."""
    import torch

    return bool(torch.cuda.is_available())


def load_recorder() -> tuple[Any, str]:
    """The recorder, or None and why not."""
    try:
        from profsuite.collector import build
        from profsuite.collector.recorder import Recorder

        recorder = Recorder.load(wait=False)
    except Exception as error:
        return None, f"{type(error).__name__}: {error}"
    if recorder is None:
        return None, build.why_not("recorder") or "its extension does not load"
    return recorder, ""


def load_extension() -> tuple[Any, str]:
    """The extractor, or None and why not."""
    try:
        from profsuite.collector import build

        extension = build.load("extract", wait=False)
    except Exception as error:
        return None, f"{type(error).__name__}: {error}"
    return extension, (build.why_not("extract") or "the extension does not load") if extension is None else ""


def load_cupti(config: Config) -> Any:
    """The CUPTI engine with the recorder beside it; ``ProfsuiteError`` says what is missing."""
    try:
        return import_module("profsuite.collector.cupti").load(config)
    except Exception as error:
        said = f"the cupti engine cannot be used: {error}; engine='kineto' records the GPU too"
        raise ProfsuiteError(said) from error


def make_channels(names: tuple[str, ...], folder: Callable[[], Path]) -> tuple[list[Any], list[str]]:
    """The side channels of these names, and what is to be said of those that cannot be."""
    from profsuite.collector.channels.registry import make

    channels, notes = [], []
    for name in names:
        try:
            channels.append(make(name, folder))
        except Exception as error:
            notes.append(f"{name}: {type(error).__name__}: {error}")
    return channels, notes
