"""The GPU by CUPTI and the CPU by the recorder, as one engine."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from profsuite.collector.recording import merge

if TYPE_CHECKING:
    from profsuite.collector.cupti.engine import CuptiEngine
    from profsuite.trace.readers.raw import RawTrace


class Session:
    """Starts and stops both; the ops of launches are found by time, since both know the system's thread ids.

    ``recorder`` may be None: then only the GPU and CUDA's calls are recorded.
    """

    def __init__(self, engine: CuptiEngine, recorder: Any = None) -> None:
        self.engine = engine
        self.recorder = recorder

    @property
    def problems(self) -> list[str]:
        """What went wrong without ending the recording."""
        return self.engine.problems

    def start(self) -> None:
        """Start both, or neither: ``CuptiError`` or ``RecorderError`` says why."""
        self.engine.start()
        if self.recorder is None:
            return
        try:
            self.recorder.start()
        except BaseException:
            self.engine.halt()
            raise

    def stop(self) -> RawTrace:
        """End both: ``halt()()``."""
        return self.halt()()

    def halt(self) -> Callable[[], RawTrace]:
        """End both; the function returned makes one trace of what they recorded, on any thread."""
        ops = None
        try:
            if self.recorder is not None:
                ops = self.recorder.stop()
        finally:
            decode = self.engine.halt()
        return decode if ops is None else partial(_together, ops, decode)


def _together(ops: RawTrace, decode: Callable[[], RawTrace]) -> RawTrace:
    return merge([ops, decode()])
