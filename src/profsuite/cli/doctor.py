"""``profsuite doctor``: what is installed, what is used, and what would make profsuite faster."""

from __future__ import annotations

import platform
from importlib import import_module, metadata, util
from pathlib import Path

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
        ("scanner", scanner()),
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


def scanner() -> str:
    """Which reader is used, and why."""
    try:
        module = import_module("profsuite.trace._scanner")
    except ImportError as error:
        if util.find_spec("profsuite.trace._scanner") is None:
            return "python reader: the C scanner was not built; install a C compiler and reinstall profsuite"
        return f"python reader: the C scanner does not load ({error})"
    return f"C scanner ({Path(module.__file__ or '').name})"


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
    from profsuite.exporters.units import plural, size
    from profsuite.trace.cache import cache_folder

    folder = Path(cache_folder())
    files = [path.stat().st_size for path in folder.rglob("*") if path.is_file()] if folder.is_dir() else []
    return f"{folder} ({plural(len(files), 'file')}, {size(sum(files))})"
