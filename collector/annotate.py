"""``profsuite.annotate``: names for spans of a program, next to free while nobody records.

An annotation goes to torch.profiler where one is active (as ``torch.profiler.record_function`` does), else to the
recorder where it runs.  It works without torch.  In a region that torch.compile compiles it does nothing: there it
must cause neither a graph break nor a guard.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable
from types import TracebackType
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


_modules = sys.modules
_profiler: Any = None  # torch.autograd.profiler once that is imported
_push: Callable[[str], int] | None = None
_pop: Callable[[int], None] | None = None


class Annotation:
    """A named span: ``with annotate("load"): …``, or ``@annotate("load")`` for every call of a function.

    Costs under 0.3 µs while nothing records.  One object may be entered again before it is left, in the same thread.
    """

    __slots__ = ("_open", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        self._open: list[Any] | None = None

    def __enter__(self) -> Annotation:
        if _recording():
            self._begin()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._open:
            self._end()

    def __call__(self, function: Callable[P, R]) -> Callable[P, R]:
        """The function with its calls annotated; coroutines and generators from their first step to their end."""
        name = self.name
        if inspect.iscoroutinefunction(function):

            @functools.wraps(function)
            async def in_coroutine(*args: P.args, **kwargs: P.kwargs) -> Any:
                with Annotation(name):
                    return await function(*args, **kwargs)

            return in_coroutine  # type: ignore[return-value]
        if inspect.isgeneratorfunction(function):

            @functools.wraps(function)
            def in_generator(*args: P.args, **kwargs: P.kwargs) -> Any:
                with Annotation(name):
                    return (yield from function(*args, **kwargs))

            return in_generator

        @functools.wraps(function)
        def annotated(*args: P.args, **kwargs: P.kwargs) -> R:
            with Annotation(name):
                return function(*args, **kwargs)

        return annotated

    def _begin(self) -> None:
        entry: Any = 0
        if _profiler is None and "torch.autograd.profiler" in _modules:
            _bind()
        if _profiler is not None and _profiler._is_profiler_enabled:
            entry = _profiler.record_function(self.name)
            entry.__enter__()
        elif _push is not None:
            entry = _push(self.name)
        if self._open is None:
            self._open = []
        self._open.append(entry)

    def _end(self) -> None:
        assert self._open is not None
        entry = self._open.pop()
        if isinstance(entry, int):
            if _pop is not None:
                _pop(entry)
        else:
            entry.__exit__(None, None, None)


annotate = Annotation


def listen(push: Callable[[str], int] | None, pop: Callable[[int], None] | None) -> None:
    """Where annotations go while no torch.profiler is active: the recorder's functions, None for nowhere."""
    global _push, _pop
    _pop = pop
    _push = push


def _recording() -> bool:
    if _push is None:
        if _profiler is None and ("torch.autograd.profiler" not in _modules or not _bind()):
            return False
        if not _profiler._is_profiler_enabled:
            return False
    return not _compiling()


def _bind() -> bool:
    """Look to torch's profiler from now on; False while it is being imported."""
    global _profiler
    module = _modules["torch.autograd.profiler"]
    if not hasattr(module, "record_function"):
        return False
    _profiler = module
    return True


# torch._dynamo.assume_constant_result, which would need torch: Dynamo calls the function while it traces and keeps
# the answer (False, see _compiling) without a guard, so that recording may start and stop without a recompilation.
_recording._dynamo_marked_constant = True  # type: ignore[attr-defined]


def _compiling() -> bool:
    """Whether Dynamo is tracing the caller."""
    guards = sys.modules.get("torch._guards")
    return guards is not None and guards.TracingContext.try_get() is not None
