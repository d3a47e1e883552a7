"""Which tensors are parameters, gradients and optimizer state: the rows of the table ``tensor``.

Torch's event tree knows it only where Python stacks are recorded.  Here it is read off the tensors themselves: all of
them when a window opens, those of an optimizer when it steps for the first time in a window, gradients at each
step, for they are allocated anew.  Optimizers are found by torch's hook; parameters get their names from the
module that was given, else from the modules alive when the window has ended.
"""

from __future__ import annotations

import gc
import os
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Iterator
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from profsuite.collector.recording import RawBuilder

if TYPE_CHECKING:
    from profsuite.trace.readers.raw import RawTrace

DEEPEST: Final = 4
"""State is looked for in containers nested no deeper."""


class _Sighting(NamedTuple):
    """A tensor at a time.  ``owner`` is the id of the parameter that it is, or belongs to."""

    ts: int
    device: tuple[int, int | None]
    address: int | None
    num_bytes: int | None
    role: str
    owner: int
    name: str | None
    module: str | None


class TensorRoles:
    """Notes roles and addresses from ``open`` to ``close``; nothing is kept alive.

    ``module`` and ``optimizers`` may be given, and are walked though no optimizer steps.  ``problem`` says why the
    hook gave up, if it did.
    """

    def __init__(self, module: Any = None, optimizers: Iterable[Any] = ()) -> None:
        self._module: Callable[[], Any] = _weak(module)
        self._optimizers = {id(optimizer): _weak(optimizer) for optimizer in optimizers}
        self._names: dict[int, tuple[str, str]] = {}
        self._unnamed: dict[int, Callable[[], Any]] = {}
        self._addresses: dict[tuple[int, str, str | None, int, int], int | None] = {}
        self._walked: set[int] = set()
        self._found: list[_Sighting] = []
        self._opened = False
        self._handle: Any = None
        # A signal that ends the recording may come while this very thread holds it.
        self._lock = threading.RLock()
        self._pid = os.getpid()
        self.problem: str | None = None

    def names_from(self, module: Any) -> None:
        """Walk ``module`` too, if none was given."""
        if self._module() is None:
            self._module = _weak(module)

    def start(self) -> None:
        """Watch for optimizers."""
        from torch.optim.optimizer import register_optimizer_step_post_hook

        self._handle = register_optimizer_step_post_hook(self._stepped)

    def stop(self) -> None:
        """Leave no hook behind."""
        handle, self._handle = self._handle, None
        if handle is not None:
            handle.remove()

    def open(self) -> None:
        """A window begins: everything known is walked."""
        with self._lock:
            self._opened, self._walked = True, set()
            self._walk_known()

    def close(self) -> Callable[[], RawTrace]:
        """A window ends; the function returned gives the rows, on any thread."""
        with self._lock:
            if self._opened and not self._walked:  # nobody stepped: these gradients would go unseen
                self._walk_known()
            self._opened = False
            found, self._found = self._found, []
        return partial(self._rows, found)

    def _stepped(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        import torch

        # Where a graph is traced, nothing of this may become part of it.
        if torch.compiler.is_compiling() or os.getpid() != self._pid:
            return
        try:
            with self._lock:
                self._note_step(optimizer)
        except Exception as error:
            self.problem = f"roles of tensors are incomplete: {type(error).__name__}: {error}"
            self.stop()

    def _note_step(self, optimizer: Any) -> None:
        number = id(optimizer)
        self._optimizers.setdefault(number, _weak(optimizer))
        if not self._opened:
            return
        if number in self._walked:
            self._see_gradients(_parameters(optimizer))
        else:
            self._walked.add(number)
            self._walk_optimizer(optimizer)

    # ---------------------------------------------------------------- walks
    def _walk_known(self) -> None:
        if (module := self._module()) is not None:
            named = list(_named(module))
            self._names.update((id(parameter), (name, owner)) for name, owner, parameter in named)
            self._see_parameters(parameter for _, _, parameter in named)
            self._see_gradients(parameter for _, _, parameter in named)
        for number, reference in list(self._optimizers.items()):
            if (optimizer := reference()) is None:
                del self._optimizers[number]
            else:
                self._walk_optimizer(optimizer)

    def _walk_optimizer(self, optimizer: Any) -> None:
        parameters = list(_parameters(optimizer))
        for group in optimizer.param_groups:
            for name, parameter in zip(group.get("param_names", ()), group["params"], strict=False):
                self._names.setdefault(id(parameter), (name, ""))
        self._see_parameters(parameters)
        self._see_gradients(parameters)
        kind, now = type(optimizer).__name__, time.time_ns()
        for parameter, state in list(getattr(optimizer, "state", {}).items()):
            for number, (key, tensor) in enumerate(_tensors(state, None, DEEPEST)):
                self._see(now, tensor, "optimizer_state", id(parameter), number, key, kind)

    def _see_parameters(self, parameters: Iterable[Any]) -> None:
        now = time.time_ns()
        for parameter in parameters:
            if id(parameter) not in self._names and id(parameter) not in self._unnamed:
                self._unnamed[id(parameter)] = _weak(parameter)
            self._see(now, parameter, "parameter", id(parameter))

    def _see_gradients(self, parameters: Iterable[Any]) -> None:
        now = time.time_ns()
        for parameter in parameters:
            if (gradient := parameter.grad) is not None:
                self._see(now, gradient, "gradient", id(parameter))

    def _see(
        self, now: int, tensor: Any, role: str, owner: int, number: int = 0, name: str | None = None,
        module: str | None = None,
    ) -> None:  # fmt: skip
        for part, (device, address, num_bytes) in enumerate(_storages(tensor)):
            # A gradient that lies where the last one did may be another one all the same.
            if role != "gradient":
                key = (owner, role, name, number, part)
                if self._addresses.get(key, -1) == address:
                    continue
                self._addresses[key] = address
            self._found.append(_Sighting(now, device, address, num_bytes, role, owner, name, module))

    # ---------------------------------------------------------------- rows
    def _rows(self, found: list[_Sighting]) -> RawTrace:
        self._find_names()
        build = RawBuilder()
        for seen in found:
            name, module = seen.name, seen.module
            if seen.role != "optimizer_state":
                name, module = self._names.get(seen.owner, (None, None))
            build.add(
                "tensor", ts=seen.ts, device_type=seen.device[0], device=seen.device[1], address=seen.address,
                bytes=seen.num_bytes, role=seen.role, name=name, module=module or None,
            )  # fmt: skip
        return build.build(num_events=0)

    def _find_names(self) -> None:
        """Look for the modules of parameters that have no name yet; what is not found is not looked for again."""
        pending, self._unnamed = self._unnamed, {}
        if not pending:
            return
        for module in _roots():
            for name, owner, parameter in _named(module):
                reference = pending.get(id(parameter))
                if reference is not None and reference() is parameter:
                    self._names.setdefault(id(parameter), (name, owner))


def _weak(thing: Any) -> Callable[[], Any]:
    try:
        return weakref.ref(thing)
    except TypeError:  # None, or a class without weak references: not watched further
        return lambda: None


def _parameters(optimizer: Any) -> Iterator[Any]:
    for group in optimizer.param_groups:
        yield from group["params"]


def _named(module: Any) -> Iterator[tuple[str, str, Any]]:
    """Name, class of the owner, and the parameter itself, each parameter once; a model in motion may end it early."""
    seen: set[int] = set()
    try:
        for path, owner in module.named_modules():
            for name, parameter in list(owner._parameters.items()):
                if parameter is not None and id(parameter) not in seen:
                    seen.add(id(parameter))
                    yield f"{path}.{name}" if path else name, type(owner).__name__, parameter
    except (AttributeError, RuntimeError):
        return


def _roots() -> list[Any]:
    """The modules of this process that are part of no other."""
    import torch

    # By type, not isinstance: that would run the code of proxies.
    modules = [thing for thing in gc.get_objects() if issubclass(type(thing), torch.nn.Module)]
    parts = {id(part) for module in modules for part in list(module.__dict__.get("_modules", {}).values())}
    return [module for module in modules if id(module) not in parts]


def _tensors(value: Any, key: str | None, depth: int) -> Iterator[tuple[str | None, Any]]:
    """Tensors in an optimizer's state with their outermost keys."""
    import torch

    if isinstance(value, torch.Tensor):
        yield key, value
    elif depth and isinstance(value, dict):
        for name, inner in list(value.items()):
            yield from _tensors(inner, str(name) if key is None else key, depth - 1)
    elif depth and isinstance(value, list | tuple):
        for inner in value:
            yield from _tensors(inner, key, depth - 1)


def _storages(tensor: Any) -> Iterator[tuple[tuple[int, int | None], int | None, int | None]]:
    """(device type, ordinal), address and bytes of a tensor's storage; one or more for a wrapper such as DTensor."""
    import torch

    device = _device(tensor.device)
    if hasattr(tensor, "__tensor_flatten__"):
        for name in tensor.__tensor_flatten__()[0]:
            if isinstance(part := getattr(tensor, name), torch.Tensor):  # DTensor names its mesh too
                yield from _storages(part)
        return
    try:
        storage = tensor.untyped_storage()
        yield device, storage.data_ptr() or None, storage.nbytes()
    except (RuntimeError, NotImplementedError):  # sparse tensors have none
        yield device, None, None


@cache
def _device(device: Any) -> tuple[int, int | None]:
    import torch

    autograd: Any = torch.autograd
    kinds = {name.lower(): int(kind) for name, kind in autograd.DeviceType.__members__.items()}
    kinds[torch._C._get_privateuse1_backend_name()] = kinds["privateuse1"]
    return kinds[device.type], device.index
