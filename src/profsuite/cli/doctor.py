"""``profsuite doctor``: what is installed, what is used, and what would make profsuite faster."""

from __future__ import annotations

import platform
from collections.abc import Callable
from functools import partial
from importlib import import_module, metadata, util

import click

from profsuite.cli.options import examples

PACKAGES = ("numpy", "pandas", "pyarrow", "msgspec", "rich", "click", "fsspec")
EXTRAS = {
    "isal": ("fast", "reads .gz about three times as fast"),
    "duckdb": ("query", "profsuite query"),
    "distributed": ("distributed", "profsuite analyze --scheduler"),
    "tensorboard": ("tensorboard", "profsuite convert --to tensorboard"),
    "torch": ("torch", "recording"),
}


EXAMPLES = examples(
    "profsuite doctor",
    "profsuite doctor --build",
)


@click.command("doctor", epilog=EXAMPLES)
@click.option("--build", is_flag=True, help="Compile what the collector lacks, now.")
def command(build: bool) -> None:
    """Show versions, the reader and the recorder in use, the cache."""
    from profsuite import __version__

    if build:
        build_extensions()
    rows = [
        ("profsuite", __version__),
        ("python", f"{platform.python_version()} ({platform.system()} {platform.machine()})"),
        ("reader", reader()),
        *((name, version(name) or f"missing: pip install {name}") for name in PACKAGES),
        *(
            (name, version(name) or f"not installed: {use} (pip install 'profsuite[{extra}]')")
            for name, (extra, use) in EXTRAS.items()
        ),
        ("recorder", recorder()),
        ("cupti", cupti()),
        ("nvml", nvml()),
        ("gpu", gpu()),
        ("cache", cache()),
    ]
    click.echo("\n".join(f"{label:<12}{text}" for label, text in rows))


def version(package: str) -> str | None:
    """The installed version, None if it is not installed."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def reader() -> str:
    """Which reader is used, and why."""
    from profsuite.trace.readers.native import MISSING

    if MISSING is None:
        return "the C scanner"
    if util.find_spec("profsuite.trace._scanner") is None:
        return "in Python: the C scanner was not built; install a C compiler, then profsuite again"
    return f"in Python: the C scanner does not load ({MISSING})"


def build_extensions() -> None:
    """Build every extension of the collector, those as well that failed before; say what came of each."""
    from profsuite.collector.build import EXTENSIONS, build_now
    from profsuite.collector.cupti import library
    from profsuite.errors import ProfsuiteError

    builds: dict[str, Callable[[], object]] = {name: partial(build_now, name) for name in EXTENSIONS}
    if library.find_headers() is not None:
        builds["cupti"] = library.build
    failed = False
    for name, build in builds.items():
        click.echo(f"building {name} …", err=True)
        try:
            build()
        except ProfsuiteError as error:
            failed = True
            click.echo(str(error), err=True)
    if failed:
        click.echo("without it the collector records with Kineto, at a higher cost", err=True)


def recorder() -> str:
    """Whether the collector's recorder is built, and if not, why."""
    if util.find_spec("torch") is None:
        return "not in use: torch is not installed"
    from profsuite.collector.recorder import available

    found = available()
    return "built: an op costs less than half of what Kineto takes" if found else f"not in use: {found.why}"


def cupti() -> str:
    """Whether the GPU can be recorded without Kineto, and if not, what is missing."""
    from profsuite.collector.cupti.engine import status

    return status()


def nvml() -> str:
    """Whether the side channel ``nvml`` can sample devices, and if not, what is missing."""
    from profsuite.collector.channels.nvml import status

    return status()


def gpu() -> str:
    """Devices that torch sees; torch is imported only where it is installed."""
    if util.find_spec("torch") is None:
        return "unknown: torch is not installed (analysis needs neither)"
    try:
        torch = import_module("torch")
        if not torch.cuda.is_available():
            return "none that torch sees (analysis needs none)"
        return ", ".join(torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count()))
    except Exception as error:  # a broken driver must not break the doctor
        return f"torch cannot tell: {type(error).__name__}: {error}"


def cache() -> str:
    """The cache folder and how much it holds."""
    from profsuite.exporters.units import size
    from profsuite.trace.cache import used_bytes
    from profsuite.trace.cache_folder import cache_folder

    return f"{cache_folder()} ({size(used_bytes())})"
