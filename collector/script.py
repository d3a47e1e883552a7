"""Recording an unchanged script: runs it as Python would, and finds its steps by its optimizer.

A step ends where ``optimizer.step()`` does, seen through torch's own hook; of several optimizers the first one
that steps counts.
"""

from __future__ import annotations

import builtins
import os
import runpy
import sys
import threading
import types
from collections.abc import Callable
from importlib.machinery import SourceFileLoader
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from profsuite.errors import ProfsuiteError

if TYPE_CHECKING:
    from profsuite.collector.profiler import Profile


def run_script(path: str, arguments: list[str]) -> None:
    """Run a file as ``python path arguments`` would: as ``__main__``, its folder first on the path."""
    try:
        source = Path(path).read_bytes()
    except OSError as error:
        raise ProfsuiteError(f"{path}: cannot be read: {error.strerror or error}") from error
    main = types.ModuleType("__main__")
    # As Python has them there: a path that outlives a change of folder, and the module of builtins, not its names.
    file = str(Path.cwd() / path)
    loader = SourceFileLoader("__main__", file)
    main.__dict__.update(__file__=file, __loader__=loader, __builtins__=builtins, __cached__=None)
    sys.argv = [path, *arguments]
    sys.path[0] = str(Path(path).resolve().parent)
    # It stays there after the end: what the script left behind (exit handlers, threads) still needs it.
    sys.modules["__main__"] = main
    # Nor are this file's own future statements the script's: they would turn its annotations into text.
    exec(compile(source, file, "exec", dont_inherit=True), main.__dict__)  # noqa: S102


def run_module(name: str, arguments: list[str]) -> None:
    """Run a module as ``python -m name arguments`` would."""
    sys.argv = [name, *arguments]
    sys.path[0] = str(Path.cwd())
    runpy.run_module(name, run_name="__main__", alter_sys=True)


class OptimizerSteps:
    """Calls ``step`` after each optimizer step; a context manager that leaves no hook behind.

    The hook runs inside torch's annotation ``Optimizer.step#…``.  The step must not end before that does, so the
    hook only takes note, and the annotation's own end does the rest.
    """

    def __init__(self, step: Callable[[], None]) -> None:
        self._step = step
        self._first: Any = None
        self._due = False
        self._undo: list[Callable[[], None]] = []
        self.count = 0

    def __enter__(self) -> OptimizerSteps:
        from torch.autograd import profiler
        from torch.optim.optimizer import register_optimizer_step_post_hook

        handle = register_optimizer_step_post_hook(self._stepped)
        record_function: Any = profiler.record_function
        leave = record_function.__exit__

        def leave_and_step(annotation: Any, *error: Any) -> Any:
            result = leave(annotation, *error)
            if self._due and annotation.name.startswith("Optimizer.step#"):
                self._due = False
                self._step()
            return result

        record_function.__exit__ = leave_and_step

        def restore() -> None:
            if record_function.__exit__ is leave_and_step:
                record_function.__exit__ = leave

        self._undo = [handle.remove, restore]
        return self

    def __exit__(self, *_: object) -> None:
        while self._undo:
            self._undo.pop()()

    def _stepped(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        import weakref

        import torch

        if torch.compiler.is_compiling():
            return  # inside a compiled graph nothing can be counted
        # Held weakly: the hook must not keep an optimizer, and with it the parameters, alive.
        if self._first is None or self._first() is None:
            self._first = weakref.ref(optimizer)
        if self._first() is optimizer:
            self.count += 1
            self._due = True


class Exits:
    """Ends ``prof`` before ``os._exit``, which runs no exit handlers; a context manager.

    Only on the thread that records and in the process that does: forked children end by ``os._exit`` as a rule.
    """

    def __init__(self, prof: Profile) -> None:
        self._prof = prof
        self._exit = os._exit
        self._thread, self._pid = threading.get_ident(), os.getpid()

    def __enter__(self) -> None:
        os._exit = self._leave

    def __exit__(self, *_: object) -> None:
        if os._exit == self._leave:
            os._exit = self._exit

    def _leave(self, status: int) -> NoReturn:
        if (os.getpid(), threading.get_ident()) == (self._pid, self._thread):
            self._prof._flush()
        self._exit(status)


def record(prof: Profile, target: str, arguments: list[str], *, module: bool = False) -> None:
    """Run a script (or a module) under ``prof``; what it raises, passes."""
    run = run_module if module else run_script
    prof.script = None if module else target
    with prof, OptimizerSteps(prof.step) as steps, Exits(prof):
        run(target, arguments)
        if not steps.count and not prof._stepped:
            prof._note("no optimizer step was seen: steps are found by torch.optim; call prof.step() in the script")
