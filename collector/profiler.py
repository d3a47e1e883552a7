"""``profsuite.profile``: records a training run into a run folder.

    with profsuite.profile("runs/exp1", schedule=profsuite.schedule(wait=5, warmup=1, active=3)) as prof:
        for batch in data:
            train(batch)
            prof.step()
    print(prof.report().verdict)

The engine runs during the active steps.  What it recorded becomes columns and a run folder on another thread, a
window at a time, so that a process that is killed leaves what was finished.  Nothing that goes wrong here ends
the training; what cannot work at all (two profilers at once, nonsense settings) is refused at the start.
"""

from __future__ import annotations

import functools
import inspect
import os
import threading
import time
import traceback
import warnings
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from profsuite.collector.config import ALWAYS, Config, Engine, ProfsuiteWarning, as_schedule
from profsuite.collector.engines import has_gpu, load_cupti, load_extension, load_recorder, make_channels
from profsuite.collector.interrupts import Interrupts
from profsuite.collector.output import Writer
from profsuite.collector.overhead import event_cost_ns
from profsuite.collector.provenance import provenance
from profsuite.collector.recording import RawBuilder
from profsuite.collector.schedule import AnySchedule, EverySteps, Phase, Schedule
from profsuite.collector.window import BusyError, Window, add_header, header, label, refuse_if_busy
from profsuite.errors import ProfsuiteError
from profsuite.trace.readers.raw import Remark

if TYPE_CHECKING:
    from types import TracebackType

    from profsuite.collector.window import Taken
    from profsuite.trace.model import Trace
    from profsuite.trace.readers.raw import RawTrace

Function = TypeVar("Function", bound=Callable[..., Any])

DEFAULT_PATH: Final = "runs/profsuite"
ROTATE_NS: Final = 30 * 10**9
"""How long the recorder runs before what it has goes to disk, at the next step."""

_active: Profile | None = None


def _forget_in_child() -> None:
    """A forked child records nothing: the thread that would write is not there, and the folder is the parent's."""
    global _active
    _active = None


os.register_at_fork(after_in_child=_forget_in_child)


def profile(
    path: str | os.PathLike[str] = DEFAULT_PATH,
    *,
    schedule: AnySchedule | str | None = None,
    engine: Engine = "auto",
    memory: bool = False,
    stacks: bool = False,
    shapes: bool = True,
    modules: bool = False,
    all_threads: bool = False,
    json: bool = False,
    channels: tuple[str, ...] | None = None,
    background: bool = False,
    max_events: int = 20_000_000,
    rank: int | None = None,
    module: Any = None,
    optimizer: Any = None,
) -> Profile:
    """A recording into ``path``: a context manager, a decorator, or an object to ``start`` and ``stop``.

    ``schedule`` is that of ``profsuite.schedule``, or "10:15" for steps 10 to 14; None records everything.  The
    other settings are those of ``Config``.  ``ValueError`` for nonsense; settings that are ignored warn.

    With ``memory``, or with a ``module`` (an nn.Module) or an ``optimizer`` (or several), the table ``tensor`` says
    where parameters, gradients and optimizer state lie.  Optimizers that step are found without; a module gives
    names, and is needed where nothing is trained.
    """
    config = Config(
        schedule=as_schedule(schedule), engine=engine, memory=memory, stacks=stacks, shapes=shapes, modules=modules,
        all_threads=all_threads, json=json, channels=ALWAYS if channels is None else tuple(channels),
        channels_asked=channels is not None, background=background, max_events=max_events, rank=rank,
    )  # fmt: skip
    return Profile(Path(path), config, module, optimizer)


class Profile:
    """A recording, as ``profsuite.profile`` makes it.

    ``trace`` and ``report`` are there after ``stop``; ``folder`` is the run folder, None if nothing could be
    written.  ``notes`` says in plain words what could not be recorded, or known.
    """

    def __init__(self, path: Path, config: Config, module: Any = None, optimizer: Any = None) -> None:
        self.path = path
        self.config = config
        self._watched = (module, optimizer)
        self._roles = _roles(config, module, optimizer)
        self.script: str | None = None
        self.notes: list[str] = list(config.oddities)
        self._asides: list[str] = []
        self._schedule: AnySchedule = config.schedule or EverySteps()
        self._writer = Writer(path, config.rank, self.facts)
        self._interrupts = Interrupts(self._flush)
        self._recording = False
        self._stopping = False
        self._pid = os.getpid()
        self._step = 0
        self._stepped = False
        self._phase = Phase.WAIT
        self._window: Window | None = None
        self._window_open = False
        self._refused = False
        self._recorder: Any = None
        self._recorder_open = False
        self._cupti: Any = None
        self._opened_ns = 0
        self._recorded: list[list[int]] = []
        self._mark: Any = None
        self._mark_ns = 0
        self._own_steps: list[tuple[int, int, int, int]] = []
        self._channels: list[Any] = []
        self._engine = config.engine
        self._extension: Any = None
        self._origin: dict[str, Any] = {}
        self._num_windows = 0
        self._event_cost_ns: int | None = None
        self._cost: dict[str, list[int]] = {"prepare": [], "start": [], "stop": [], "step": [], "columns": []}
        self._started_ns = self._stopped_ns = 0
        for text in config.oddities:
            warnings.warn(f"profsuite: {text}", ProfsuiteWarning, stacklevel=3)

    # ---------------------------------------------------------------- the user's side
    def __enter__(self) -> Profile:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        regular = isinstance(error, GeneratorExit) or (isinstance(error, SystemExit) and not error.code)
        if error is not None and not regular:
            self._note(f"ended by {type(error).__name__} in the training code")
        self._end(calibrate=error is None)

    def __call__(self, function: Function) -> Function:
        """As a decorator: each call is a recording of its own; coroutines and generators from first step to end."""
        if inspect.iscoroutinefunction(function):

            @functools.wraps(function)
            async def in_coroutine(*args: Any, **kwargs: Any) -> Any:
                with Profile(self.path, self.config, *self._watched):
                    return await function(*args, **kwargs)

            return in_coroutine  # type: ignore[return-value]
        if inspect.isgeneratorfunction(function):

            @functools.wraps(function)
            def in_generator(*args: Any, **kwargs: Any) -> Any:
                with Profile(self.path, self.config, *self._watched):
                    return (yield from function(*args, **kwargs))

            return in_generator  # type: ignore[return-value]

        @functools.wraps(function)
        def recorded(*args: Any, **kwargs: Any) -> Any:
            with Profile(self.path, self.config, *self._watched):
                return function(*args, **kwargs)

        return recorded  # type: ignore[return-value]

    def start(self) -> None:
        """Begin.  ``BusyError`` if a profiler, ours or torch's, is active in this process."""
        global _active
        if self._recording or self._stopped_ns:
            raise ProfsuiteError("this recording was started before; profsuite.profile makes a new one")
        if _active is not None and _active._recording:
            raise BusyError("profsuite.profile is recording already in this process: stop it first")
        refuse_if_busy()
        self._watched = (None, None)  # what is recorded is not kept alive for it
        self._pid = os.getpid()
        self._choose_engine()
        self._origin = provenance(self.script)
        _active = self
        self._recording = True
        self._started_ns = time.time_ns()
        self._interrupts.install()
        try:
            self._start_channels()
            if self._roles is not None:
                self._roles.start()
            self._move(self._schedule.phase(0))
        except BaseException:
            self._abort()
            raise
        self._open_mark()

    def step(self) -> None:
        """The step is over; the next one begins.  Does nothing while nothing records."""
        if not self._recording or self._stopping or os.getpid() != self._pid:
            return
        begin = time.perf_counter_ns()
        self._close_mark()
        self._stepped = True
        self._step += 1
        try:
            self._move(self._schedule.phase(self._step))
        except Exception as error:
            self._give_up(error)
            return
        self._open_mark()
        self._cost["step"].append(time.perf_counter_ns() - begin)

    def stop(self) -> None:
        """End, and write the run folder.  Does nothing if nothing records."""
        self._end(calibrate=True)

    def _end(self, calibrate: bool) -> None:
        global _active
        if not self._recording or self._stopping or os.getpid() != self._pid:
            return
        self._stopping = True
        self._interrupts.hold()
        try:
            self._close_mark(at_end=True)
            self._guarded(self._close)
            if self._window is not None:
                self._guarded(self._window.abandon)
            self._stop_channels()
            self._stop_roles()
            self._stopped_ns = time.time_ns()
            self._say_what_is_unknown()
            if calibrate and self._recorded:
                self._guarded(self._calibrate)
            self._writer.finish(self._own_rows())
        finally:
            self._recording = self._stopping = False
            self._window = None
            self._recorder = self._cupti = None
            if _active is self:
                _active = None
            self._interrupts.remove()

    def names_from(self, module: Any) -> None:
        """Take the names of parameters from this nn.Module, where roles of tensors are recorded and none was given."""
        if self._roles is not None and module is not None:
            self._roles.names_from(module)

    @property
    def folder(self) -> Path | None:
        """The run folder, None before it is written or if it cannot be."""
        return self._writer.folder

    @property
    def trace(self) -> Trace:
        """What was recorded.  ``ProfsuiteError`` while it still records."""
        if self._recording or not self._stopped_ns:
            raise ProfsuiteError("the trace is there once the recording has stopped")
        return self._writer.trace()

    def report(self, top: int = 10) -> Any:
        """The ``profsuite.Report`` of the trace."""
        # By the public API: the collector itself knows no analyzer.
        return import_module("profsuite").analyze(self.trace, top=top)

    def export(self, path: str | os.PathLike[str], format: str | None = None, **options: Any) -> Path:  # noqa: A002
        """Write what was recorded as ``path`` in another format; returns the path.

        ``format`` is a name that ``profsuite convert --to`` takes, by default that of the path's ending; ``options``
        are ``steps`` and ``time`` of ``profsuite.load``.  ``ProfsuiteError`` while it still records, and as of
        ``profsuite.export``.
        """
        if self._recording or not self._stopped_ns:
            raise ProfsuiteError("export: what was recorded can be written once the recording has stopped")
        written: Path = import_module("profsuite").export(self.trace, path, format, **options)
        return written

    def _repr_html_(self) -> str:
        if self._recording or not self._stopped_ns:
            return "<p>profsuite: recording…</p>" if self._recording else "<p>profsuite: not started</p>"
        from html import escape

        page = import_module("profsuite.exporters.html").render(self.report())
        # In a frame of its own: the page brings its style, and must not change the notebook's.
        return f'<iframe sandbox srcdoc="{escape(page)}" style="width:100%;height:40rem;border:0"></iframe>'

    def __repr__(self) -> str:
        state = "recording" if self._recording else "stopped" if self._stopped_ns else "not started"
        return f"<profsuite.profile {str(self.path)!r}: {state}, {self._step} steps, {self._num_windows} windows>"

    # ---------------------------------------------------------------- engines
    def _choose_engine(self) -> None:
        config = self.config
        self._engine = config.engine
        if config.engine == "cupti":
            self._cupti = load_cupti(config)
        deep = config.wants_kineto or has_gpu() or config.schedule is not None
        light = config.engine == "recorder" or (config.engine == "auto" and not deep)
        if light or (config.background and config.engine != "cupti"):
            self._recorder, why = load_recorder()
            if self._recorder is None:
                instead = "Kineto records instead, at a higher cost" if light else "nothing is recorded between windows"
                self._note(f"the recorder is not in use ({why}); {instead}")
        if config.engine in ("auto", "recorder"):
            self._engine = "recorder" if light and self._recorder is not None else "kineto"
        if self._engine == "kineto":
            self._extension, why = load_extension()
            if self._extension is None:
                self._note(f"windows go through Kineto's JSON ({why})")

    def _move(self, phase: Phase) -> None:
        """What the next step's phase demands."""
        before, self._phase = self._phase, phase
        active = phase in (Phase.ACTIVE, Phase.LAST)
        if before is Phase.LAST or not active:
            self._refused = False
            if self._window_open:
                self._close_window()
        if self._recorder_open and self._engine == "recorder" and (before is Phase.LAST or not active):
            self._close_recorder()
        if self._writer.num_events > self.config.max_events:
            if self._schedule != _NEVER:
                self._note(f"more than {self.config.max_events:,} events (max_events): recording ended there")
                self._close()
                self._schedule = _NEVER
            return
        if phase is Phase.WARMUP and self._engine == "kineto" and self._window is None:
            self._prepare_window()
        if active:
            self._open()
        elif self.config.background and self._recorder is not None and not self._recorder_open:
            self._open_recorder()
        if self._recorder_open:
            self._recorder.refresh()
            if time.time_ns() - self._opened_ns > ROTATE_NS:
                self._opened_ns = time.time_ns()
                self._note_recorded()
                self._keep_recorded(self._recorder.take())

    def _open(self) -> None:
        if self._engine == "kineto":
            if not self._window_open:
                if self._recorder_open:
                    self._close_recorder()
                self._open_window()
        elif self._engine == "cupti":
            if not self._window_open and not self._refused:
                self._open_cupti()
        elif not self._recorder_open:
            self._open_recorder()

    def _open_cupti(self) -> None:
        """Start CUPTI.  A refusal at the start is an error; later the window is left out, and training goes on."""
        self._open_roles()
        try:
            self._cupti.start()
        except ProfsuiteError as error:
            if self._step == 0:
                raise
            self._refused = True
            note = f"windows are missing: {error}"
            if note not in self.notes:
                warnings.warn(f"profsuite: {note}; training goes on", ProfsuiteWarning, stacklevel=5)
            self._note(note)
            return
        self._window_open = True
        self._note_opened()

    def _close(self) -> None:
        if self._window_open:
            self._close_window()
        if self._recorder_open:
            self._close_recorder()

    def _prepare_window(self) -> None:
        begin = time.perf_counter_ns()
        self._window = Window(self.config, self._extension)
        self._window.prepare()
        self._cost["prepare"].append(time.perf_counter_ns() - begin)

    def _open_window(self) -> None:
        if self._window is None:
            self._prepare_window()
        assert self._window is not None
        begin = time.perf_counter_ns()
        self._open_roles()
        self._window.start()
        self._cost["start"].append(time.perf_counter_ns() - begin)
        self._window_open = True
        self._note_opened()

    def _close_window(self) -> None:
        begin = time.perf_counter_ns()
        self._window_open = False
        self._note_recorded()
        if self._engine == "cupti":
            self._put(self._headed(self._cupti.halt()))
        else:
            window, self._window = self._window, None
            assert window is not None
            taken = window.stop()
            if taken.problem is not None:
                self._recorded.pop()
                self._note(f"a window was lost: {taken.problem}")
            self._put(functools.partial(self._columns, taken, self._num_windows))
        self._cost["stop"].append(time.perf_counter_ns() - begin)

    def _note_opened(self) -> None:
        """A window has opened; what it recorded counts once it is handed over."""
        self._num_windows += 1
        now = time.time_ns()
        self._recorded.append([now, now])

    def _note_recorded(self) -> None:
        """The open window has recorded until now."""
        self._recorded[-1][1] = time.time_ns()

    def _columns(self, taken: Taken, number: int) -> RawTrace:
        if self.config.json:
            taken.json_path = self._writer.json_path(number)
        raw = taken.raw()
        self._cost["columns"].append(taken.took_ns)
        return raw

    def _open_recorder(self) -> None:
        self._open_roles()
        self._recorder.start(shapes=self.config.shapes)
        self._recorder_open = True
        self._opened_ns = time.time_ns()
        self._note_opened()

    def _close_recorder(self) -> None:
        begin = time.perf_counter_ns()
        self._recorder_open = False
        self._note_recorded()
        self._keep_recorded(self._recorder.stop(), last=True)
        self._cost["stop"].append(time.perf_counter_ns() - begin)

    def _keep_recorded(self, raw: RawTrace, *, last: bool = False) -> None:
        (self._put if last else self._writer.put)(self._headed(lambda: raw))

    def _headed(self, recorded: Callable[[], RawTrace]) -> Callable[[], RawTrace]:
        """With the header as of now: when the columns are read, on another thread, the process group may be gone."""
        own = header(self.config)

        def made() -> RawTrace:
            raw = recorded()
            add_header(raw, own)
            return raw

        return made

    def _put(self, recorded: Callable[[], RawTrace]) -> None:
        """Hand over a window that has ended, and what was seen of tensors in it."""
        roles = None if self._roles is None else self._guarded(self._roles.close)
        self._writer.put(*(item for item in (recorded, roles) if item is not None))

    def _open_roles(self) -> None:
        if self._roles is not None:
            self._guarded(self._roles.open)

    def _stop_roles(self) -> None:
        if self._roles is not None:
            self._roles.stop()
            if self._roles.problem is not None:
                self._note(self._roles.problem)

    # ---------------------------------------------------------------- steps
    def _open_mark(self) -> None:
        """Begin the mark of a step.

        With a schedule it is Kineto's own annotation, as torch's; else it is ours, added when the step is over: only
        then is it known that there are steps at all.
        """
        self._mark_ns = time.time_ns()
        if self._window_open and self._engine == "kineto" and isinstance(self._schedule, Schedule):
            from torch.autograd.profiler import record_function

            self._mark = record_function(f"ProfilerStep#{self._step}")
            self._mark.__enter__()

    def _close_mark(self, at_end: bool = False) -> None:
        if self._mark is not None:
            mark, self._mark = self._mark, None
            self._guarded(lambda: mark.__exit__(None, None, None))
        elif self._mark_ns and not at_end and (self._window_open or self._recorder_open):
            self._own_steps.append((self._mark_ns, time.time_ns(), self._step, threading.get_native_id()))
        self._mark_ns = 0

    def _own_rows(self) -> RawTrace | None:
        """What is ours: the marks of steps, remarks."""
        build = RawBuilder()
        for begin, end, number, thread in self._own_steps:
            build.add(
                "slice",
                ts=begin,
                dur=end - begin,
                track=build.track(self._pid, thread),
                name=f"ProfilerStep#{number}",
                category="user_annotation",
            )
        self._own_steps = []
        label(build)
        build.remarks += [Remark("recording", 1, None, f"{note[:1].upper()}{note[1:]}.") for note in self.notes]
        return build.build()

    def _say_what_is_unknown(self) -> None:
        if not self._num_windows:
            self._note(
                f"nothing was recorded: {self._schedule} had no active step in {self._step} steps"
                if self._stepped
                else f"nothing was recorded: step() was never called, and {self._schedule} waits for it"
            )
        elif not self._stepped:
            self._note("step() was never called: times per step are unknown; call prof.step() at the end of each")

    # ---------------------------------------------------------------- side channels
    def _start_channels(self) -> None:
        self._channels, notes = make_channels(self.config.channels, self._writer.beside)
        for note in notes:
            self._note(note)
        for channel in self._channels:
            self._guarded(channel.start)

    def _stop_channels(self) -> None:
        for channel in self._channels:
            raw = self._guarded(channel.stop)
            # That a machine has no such device is news only to who asked for it.
            quiet = not self.config.channels_asked and getattr(channel, "absent", False)
            for problem in getattr(channel, "problems", ()):
                text = f"{channel.name}: {problem}"
                if quiet:
                    self._asides.append(text)
                else:
                    self._note(text)
            if raw is not None:
                self._writer.put(functools.partial(lambda r: r, raw))

    # ---------------------------------------------------------------- what goes into the folder
    def facts(self) -> dict[str, Any]:
        """What is known of the recording itself: where it comes from, what it cost, what it lacks."""

        def cost(name: str) -> dict[str, int] | None:
            values = list(self._cost[name])
            return {"count": len(values), "total_ns": sum(values), "max_ns": max(values)} if values else None

        costs: dict[str, Any] = {name: cost(name) for name in self._cost}
        costs["engine_ns_per_event"] = self._event_cost_ns
        costs["writer_cpu_ns"] = self._writer.cpu_ns
        costs["channels_cpu_ns"] = {c.name: int(getattr(c, "overhead_ns", 0)) for c in self._channels}
        return {
            "version": 1,
            "settings": self.config.to_json(),
            "engine": self._engine,
            "extraction": None if self._engine != "kineto" else "json" if self._extension is None else "native",
            "started_ns": self._started_ns,
            "stopped_ns": self._stopped_ns or None,
            "steps": self._step if self._stepped else None,
            "windows": self._num_windows,
            "recorded_ns": [list(window) for window in self._recorded if window[1] > window[0]],
            "overhead": {name: value for name, value in costs.items() if value is not None},
            "notes": [*self.notes, *self._asides],
            "origin": self._origin,
        }

    def _calibrate(self) -> None:
        """Measure what the engine costs an event, here and now that training is over."""
        if self._engine == "cupti":
            return
        if self._engine == "recorder":
            start = functools.partial(self._recorder.start, shapes=self.config.shapes)
            cost = event_cost_ns(start, lambda: int(self._recorder.stop().num_events))
        else:
            session = Window(self.config, device=False)
            cost = event_cost_ns(session.start, lambda: len(session.stop().result.events()))
        self._event_cost_ns = round(cost)

    # ---------------------------------------------------------------- trouble
    def _note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)

    def _guarded(self, action: Callable[[], Any]) -> Any:
        """``action()``; what it raises becomes a note and a warning."""
        try:
            return action()
        except Exception as error:
            self._note(f"{type(error).__name__}: {error}")
            said = f"profsuite: {type(error).__name__}: {error}; training goes on"
            warnings.warn(said, ProfsuiteWarning, stacklevel=3)
            if os.environ.get("PROFSUITE_DEBUG"):
                traceback.print_exc()
            return None

    def _give_up(self, error: Exception) -> None:
        """Stop recording because of ``error``; training goes on."""
        self._note(f"recording ended in step {self._step}: {error}")
        warnings.warn(f"profsuite: recording ends: {error}; training goes on", ProfsuiteWarning, stacklevel=3)
        self._window = None if not self._window_open else self._window
        self._end(calibrate=False)

    def _abort(self) -> None:
        """Undo a start that failed."""
        global _active
        for channel in self._channels:
            self._guarded(channel.stop)
        self._channels = []
        self._stop_roles()
        self._recording = False
        _active = None
        self._interrupts.remove()

    def _flush(self) -> None:
        """The process is ending: keep what there is."""
        if self._recording and not self._stopping:
            self._note("ended by a signal, or by the end of the process, before stop()")
            self._guarded(functools.partial(self._end, calibrate=False))


_NEVER: Final = Schedule(skip_first=2**62, active=1)


def _roles(config: Config, module: Any, optimizer: Any) -> Any:
    """Watches tensors' roles, None where nobody asked for them."""
    if module is None and optimizer is None and not (config.memory and config.engine in ("auto", "kineto")):
        return None
    from profsuite.collector.tensors import TensorRoles

    given = optimizer if isinstance(optimizer, list | tuple) else () if optimizer is None else (optimizer,)
    return TensorRoles(module, given)
