"""The collector's C++ extensions: compiled on the user's machine, once for each torch, Python and compiler.

``load`` gives an extension that was built before; where there is none it starts a build in a process of its own and
gives None, so that training never waits for a compiler.  ``build_now`` waits (``profsuite doctor --build``).  Builds
lie in the user's cache (``$PROFSUITE_CACHE/../native``), under a lock, for many ranks start at once.  A build that
failed is remembered, with what the compiler said, until something that it depends on changes.  A new build removes
old ones that are out of use (see ``prune``).

The module runs as a program as well: ``python -m profsuite.collector.build JOB`` does a ``Job``, without torch.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from importlib import import_module, util
from importlib.machinery import ExtensionFileLoader
from pathlib import Path
from types import ModuleType
from typing import Final

from profsuite.collector.prune import mark_used, prune
from profsuite.errors import ProfsuiteError
from profsuite.trace.cache_folder import cache_folder

NATIVE: Final = Path(__file__).parent / "native"
COMPILER_SECONDS: Final = 1800
"""A compiler that takes longer is stopped."""


class BuildError(ProfsuiteError):
    """An extension cannot be built or loaded; the message says why, and what would help."""


@dataclass(frozen=True, slots=True)
class Extension:
    """What an extension consists of: its source, the headers it includes, the libraries of torch it calls."""

    name: str
    source: str
    headers: tuple[str, ...] = ()
    libraries: tuple[str, ...] = ("torch_cpu", "c10")

    def files(self) -> list[Path]:
        """Source and headers."""
        return [NATIVE / file for file in (self.source, *self.headers)]


EXTENSIONS: Final = {
    "recorder": Extension(
        "recorder",
        "recorder.cpp",
        ("recorder.h", "session.h", "ring.h", "names.h", "inputs.h", "layouts.h", "collective.h", "clock.h"),
    ),
    "extract": Extension(
        "extract",
        "extract.cpp",
        ("columns.h", "op_inputs.h", "layouts.h", "activities.h", "pools.h", "names.h", "trim.h"),
        ("torch_python", "torch", "torch_cpu", "c10"),
    ),
}


@dataclass(frozen=True, slots=True)
class Job:
    """One build: the commands to try in order (each writes the file ``{output}``), and where its results go."""

    name: str
    target: str
    commands: tuple[tuple[str, ...], ...]

    @property
    def failed(self) -> Path:
        """Where the failure of this very build is remembered."""
        return Path(self.target).with_suffix(".failed")

    @property
    def lock(self) -> Path:
        """Held while it is built."""
        return Path(self.target).with_suffix(".lock")


_loaded: dict[str, ModuleType] = {}
_warned: set[str] = set()


def folder() -> Path:
    """Where builds lie: ``native`` beside the folder of cached traces."""
    return cache_folder().parent / "native"


def why_not(name: str) -> str | None:
    """Why the extension cannot be used now, None if it can (nothing is built for the answer)."""
    if name in _loaded:
        return None
    try:
        job = plan(name)
    except BuildError as error:
        return str(error)
    if Path(job.target).is_file():
        return None
    if job.failed.is_file():
        return _failure(job)
    return f"the {name} extension is not built yet: profsuite doctor --build builds it"


def load(name: str, *, wait: bool = False) -> ModuleType | None:
    """The extension, or None if there is no build of it to be had now.

    Without a build one is started in the background, unless it failed before; with ``wait`` it is made at once, and
    ``BuildError`` says why it cannot.  One line on stderr says what happens.
    """
    if name in _loaded:
        return _loaded[name]
    if wait:
        return build_now(name)
    try:
        job = plan(name)
        if Path(job.target).is_file():
            return _import(job)
        if not job.failed.is_file():
            _start(job)
            _say(f"the {name} extension is being built in the background; this run goes without it")
            return None
        raise BuildError(_failure(job))
    except BuildError as error:
        _say(str(error))
        return None


def build_now(name: str, *, again: bool = False) -> ModuleType:
    """The extension, built first where there is no build of it; ``BuildError`` says why it cannot be.

    Waits for a build that is under way.  An earlier failure does not count; ``again`` builds in any case.
    """
    job = plan(name)
    if again or not Path(job.target).is_file():
        try:
            run(job, wait=True, again=again)
        except OSError as error:
            raise BuildError(f"{folder()}: cannot write there ({error.strerror or error})") from error
    if not Path(job.target).is_file():
        raise BuildError(_failure(job))
    return _import(job)


def plan(name: str) -> Job:
    """The build of an extension for this torch, Python and compiler; ``BuildError`` if there can be none."""
    extension = EXTENSIONS[name]
    if not sys.platform.startswith("linux"):
        raise BuildError(f"the {name} extension is for Linux only")
    if util.find_spec("torch") is None:
        raise BuildError("torch is not installed: pip install 'profsuite[torch]'")
    import torch

    missing = [path for path in extension.files() if not path.is_file()]
    if missing:
        raise BuildError(f"{missing[0]}: the source is not there; was profsuite installed whole?")
    abi = str(sysconfig.get_config_var("SOABI") or sys.implementation.cache_tag)
    digest = hashlib.sha256()
    for path in extension.files():
        digest.update(path.read_bytes())
    digest.update(repr((torch.__version__, abi, _flags())).encode())
    stem = f"{name}-{torch.__version__}-{abi}-{digest.hexdigest()[:16]}"
    compiler = find_compiler()
    if compiler is None:
        # A home shared with a machine that has a compiler may hold a build of this very source.
        for built in sorted(folder().glob(f"{stem}-*.so")):
            return Job(name, str(built), ())
        raise BuildError("there is no C++ compiler: install g++ or clang++, or name one in $CXX")
    stat = compiler.stat()
    which = hashlib.sha256(repr((str(compiler), stat.st_size, stat.st_mtime_ns)).encode()).hexdigest()[:8]
    target = folder() / f"{stem}-{which}.so"
    return Job(name, str(target), _commands(extension, str(compiler)))


def find_compiler() -> Path | None:
    """The C++ compiler: ``$CXX``, else the first of c++, g++ and clang++ on the path; None if there is none."""
    for command in (os.environ.get("CXX"), "g++", "c++", "clang++"):
        if command and (found := shutil.which(command)):
            return Path(found).resolve()
    return None


def run(job: Job, *, wait: bool, again: bool = False) -> None:
    """Do what the job says, under its lock.

    Without ``wait`` a build that another process has under way is left to it.  A failure is written down, not raised.
    """
    Path(job.target).parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with _locked(job.lock, wait=wait) as mine:
        if not mine or (Path(job.target).is_file() and not again):
            return
        output = f"{job.target}.{os.getpid()}"
        said = ""
        try:
            for command in job.commands:
                said, done = _compile([part.replace("{output}", output) for part in command])
                if done:
                    Path(output).replace(job.target)
                    job.failed.unlink(missing_ok=True)
                    prune(Path(job.target).parent, Path(job.target))
                    return
            job.failed.write_text(said[-4000:] or "the compiler said nothing", encoding="utf-8")
        finally:
            Path(output).unlink(missing_ok=True)


def _compile(command: list[str]) -> tuple[str, bool]:
    """What the compiler said, and whether it succeeded."""
    try:
        done = subprocess.run(  # noqa: S603  the compiler that the user's path or $CXX names
            command,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=COMPILER_SECONDS,
            stdin=subprocess.DEVNULL,
        )
    except subprocess.TimeoutExpired:
        return f"{command[0]} took longer than {COMPILER_SECONDS} s", False
    except OSError as error:
        return f"{command[0]}: {error.strerror or error}", False
    return done.stderr or done.stdout, done.returncode == 0


def _commands(extension: Extension, compiler: str) -> tuple[tuple[str, ...], ...]:
    """The compiler's command, for the two language standards that torch's headers have asked for."""
    import torch

    root = Path(torch.__file__).parent
    include = root / "include"
    includes = [include, include / "torch" / "csrc" / "api" / "include", include / "kineto"]
    system = [part for path in includes if path.is_dir() for part in ("-isystem", str(path))]
    python = sysconfig.get_path("include")
    libraries = [f"-l{library}" for library in extension.libraries]
    rest = (
        *_flags(), f"-DTORCH_EXTENSION_NAME=_{extension.name}", *system, "-isystem", python,
        str(NATIVE / extension.source), "-o", "{output}", f"-L{root / 'lib'}", *libraries, "-pthread",
    )  # fmt: skip
    return tuple((compiler, f"-std={standard}", *rest) for standard in ("c++20", "c++17"))


def _flags() -> tuple[str, ...]:
    import torch

    flags = [
        # Without NDEBUG torch's inputs() asserts on every op.
        "-O2", "-DNDEBUG", "-fPIC", "-shared", "-fvisibility=hidden",
        f"-D_GLIBCXX_USE_CXX11_ABI={int(torch._C._GLIBCXX_USE_CXX11_ABI)}",
    ]  # fmt: skip
    if torch.distributed.is_available():
        flags += ["-DUSE_C10D", "-DPROFSUITE_C10D"]
    return tuple(flags)


def _start(job: Job) -> None:
    """Build in a process of its own, which outlives this one and asks for little of the machine."""
    command = [sys.executable, "-m", "profsuite.collector.build", json.dumps(asdict(job))]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    with suppress(OSError):
        process = subprocess.Popen(  # noqa: S603  this interpreter
            command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            start_new_session=True,
        )  # fmt: skip
        threading.Thread(target=process.wait, name="profsuite-build", daemon=True).start()  # or it stays a zombie


def _import(job: Job) -> ModuleType:
    if job.name in _loaded:
        return _loaded[job.name]
    path = Path(job.target)
    with suppress(AttributeError, OSError):
        if path.stat().st_uid not in (os.getuid(), 0):
            raise BuildError(f"{path}: belongs to another user, and is not loaded; remove it")
    try:
        import_module("torch")  # its libraries must be there first
        # The name of the module's init function, whatever the file is called.
        loader = ExtensionFileLoader(f"profsuite.collector._{job.name}", str(path))
        spec = util.spec_from_file_location(loader.name, str(path), loader=loader)
        assert spec is not None
        module = util.module_from_spec(spec)
        loader.exec_module(module)
    except ImportError as error:
        raise BuildError(f"{path}: does not load ({error}); profsuite doctor --build builds it anew") from error
    _loaded[job.name] = module
    mark_used(path)
    return module


def _failure(job: Job) -> str:
    try:
        said = job.failed.read_text(encoding="utf-8", errors="replace")
    except OSError:
        said = "it left no message"
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    first = next((line for line in lines if "error" in line.lower()), lines[0] if lines else "no message")
    return f"the {job.name} extension could not be built: {first} (profsuite doctor --build tries again)"


def _say(line: str) -> None:
    """One line on stderr, once in a process; in a distributed job the first rank alone speaks."""
    if line not in _warned and os.environ.get("LOCAL_RANK", "0") == "0":
        print(f"profsuite: {line}", file=sys.stderr)
    _warned.add(line)


@contextmanager
def _locked(path: Path, *, wait: bool) -> Iterator[bool]:
    """Hold the lock; gives False if another process has it and ``wait`` is not set."""
    import fcntl

    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            yield False
            return
        yield True


def main() -> None:
    """Build in the background: the one argument is a ``Job`` as JSON."""
    with suppress(OSError):
        os.nice(10)
    job = json.loads(sys.argv[1])
    with suppress(OSError):  # an unwritable cache: the next run says so again
        run(Job(job["name"], job["target"], tuple(tuple(command) for command in job["commands"])), wait=False)


if __name__ == "__main__":
    main()
