"""``profsuite doctor``: what is installed, what is used, and what would make profsuite faster."""

from __future__ import annotations

import platform
from importlib import import_module, metadata, util

import click

from profsuite.cli.options import examples

PACKAGES = ("numpy", "pandas", "pyarrow", "msgspec", "rich", "click", "fsspec")
EXTRAS = {
    "isal": ("fast", "reads .gz about three times as fast"),
    "duckdb": ("query", "profsuite query"),
    "torch": ("torch", "recording"),
}


EXAMPLES = examples(
    "profsuite doctor",
)


@click.command("doctor", epilog=EXAMPLES)
def command() -> None:
    """Show versions, the reader in use, the cache."""
    from profsuite import __version__

    rows = [
        ("profsuite", __version__),
        ("python", f"{platform.python_version()} ({platform.system()} {platform.machine()})"),
        ("reader", reader()),
        *((name, version(name) or f"missing: pip install {name}") for name in PACKAGES),
        *(
            (name, version(name) or f"not installed: {use} (pip install 'profsuite[{extra}]')")
            for name, (extra, use) in EXTRAS.items()
        ),
        ("gpu", gpu()),
        ("cache", cache()),
    ]
    click.echo("\n".join(f"{label:<11}{text}" for label, text in rows))


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
    from profsuite.trace.cache import cache_folder, used_bytes

    return f"{cache_folder()} ({size(used_bytes())})"
