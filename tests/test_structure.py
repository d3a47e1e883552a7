"""The repository's own rules: what is packaged, who may import whom, what ``import profsuite`` costs."""

from __future__ import annotations

import ast
import importlib
import inspect
import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
SETUPTOOLS = PYPROJECT["tool"]["setuptools"]
FOLDERS = {name: ROOT / folder for name, folder in SETUPTOOLS["package-dir"].items()}

# Who may import whom; each may import itself and profsuite.errors.
MAY_IMPORT = {
    "profsuite.trace": set(),
    "profsuite.analyzers": {"profsuite.trace"},
    "profsuite.collector": {"profsuite.trace"},
    "profsuite.exporters": {"profsuite.trace", "profsuite.analyzers"},
    "profsuite.dashboard": {"profsuite.trace", "profsuite.analyzers", "profsuite.exporters"},
}
ONLY_IN = {"torch": "profsuite.collector", "dash": "profsuite.dashboard", "plotly": "profsuite.dashboard"}
OPTIONAL = {"torch", "lightning", "pytorch_lightning", "transformers"}
"""What a module may need that an installation of profsuite alone has not."""
HEAVY = ("torch", "dash", "plotly", "pandas", "numpy", "pyarrow", "duckdb", "rich", "msgspec", "click")
STARTUP_SECONDS, HELP_SECONDS = 0.1, 0.25
"""Of the processor, so that tests that run beside do not count."""


def modules() -> Iterator[tuple[str, Path]]:
    """Every module of the project: its name once installed, and its file."""
    for package, folder in FOLDERS.items():
        for path in sorted(folder.rglob("*.py")):
            parts = path.relative_to(folder).with_suffix("").parts
            yield ".".join((package, *parts)).removesuffix(".__init__"), path


MODULES = dict(modules())


def imports(path: Path) -> Iterator[tuple[str, bool]]:
    """Every module that a file imports, and whether the import runs when the file is imported."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    inner = {
        id(child)
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        or (isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING")
        for child in ast.walk(node)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, id(node) not in inner
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            assert node.module is not None
            if node.module == "profsuite":
                for alias in node.names:
                    yield f"profsuite.{alias.name}", id(node) not in inner
            else:
                yield node.module, id(node) not in inner


def within(module: str, package: str) -> bool:
    return module == package or module.startswith(package + ".")


def test_package_list_is_the_tree() -> None:
    tree = set()
    for package, folder in FOLDERS.items():
        for init in folder.rglob("__init__.py"):
            tree.add(".".join((package, *init.parent.relative_to(folder).parts)))
    assert sorted(SETUPTOOLS["packages"]) == sorted(tree)
    for top in ("analyzers", "collector", "dashboard", "exporters"):
        assert (ROOT / top).is_dir() == (f"profsuite.{top}" in FOLDERS), top


def test_every_data_file_is_packaged() -> None:
    listed = {
        path.relative_to(ROOT)
        for package, patterns in SETUPTOOLS["package-data"].items()
        for base in FOLDERS
        if within(package, base)
        for pattern in patterns
        for path in FOLDERS[base].joinpath(*package.removeprefix(base).strip(".").split(".")).glob(pattern)
    }
    data = {path.relative_to(ROOT) for folder in FOLDERS.values() for path in folder.rglob("*.toml")}
    assert data == {path for path in listed if path.suffix == ".toml"} != set()


def test_every_python_file_is_in_a_package() -> None:
    for name, path in MODULES.items():
        assert (path.parent / "__init__.py").exists(), f"{name}: its folder has no __init__.py"


@pytest.mark.parametrize("name", MODULES)
def test_import_directions(name: str) -> None:
    home = next((package for package in MAY_IMPORT if within(name, package)), None)
    for imported, _ in imports(MODULES[name]):
        top = imported.split(".")[0]
        if top in ONLY_IN:
            assert within(name, ONLY_IN[top]), f"{name} imports {top}"
        assert top not in ("analyzers", "collector", "dashboard", "exporters"), f"{name} imports {imported}"
        if home is not None and top == "profsuite":
            allowed = MAY_IMPORT[home] | {home, "profsuite.errors", "profsuite.__version__"}
            assert any(within(imported, package) for package in allowed), f"{name} imports {imported}"


@pytest.mark.parametrize("name", [n for n in MODULES if within(n, "profsuite.cli")])
def test_commands_import_lazily(name: str) -> None:
    light = {"click", "profsuite"}
    for imported, at_import in imports(MODULES[name]):
        if at_import and imported.split(".")[0] not in sys.stdlib_module_names:
            assert imported.split(".")[0] in light, f"{name} imports {imported} at its top"
            assert (
                imported.split(".")[0] == "click"
                or imported in ("profsuite.errors", "profsuite.__version__")
                or within(imported, "profsuite.cli")
            ), f"{name} imports {imported} at its top"


def run(code: str) -> str:
    result = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    return result.stdout


def test_import_profsuite_pulls_nothing_heavy() -> None:
    loaded = json.loads(run("import json, sys, profsuite; print(json.dumps(sorted(sys.modules)))"))
    assert not [name for name in loaded if name.split(".")[0] in HEAVY]


def test_import_profsuite_is_quick() -> None:
    code = "import time; t = time.process_time(); import profsuite; print(time.process_time() - t)"
    assert min(float(run(code)) for _ in range(5)) < STARTUP_SECONDS


def test_help_is_quick() -> None:
    code = (
        "import time; t = time.process_time()\n"
        "from profsuite.cli.app import app\n"
        "try: app(['--help'])\n"
        "except SystemExit: pass\n"
        "print(time.process_time() - t)"
    )
    assert min(float(run(code).splitlines()[-1]) for _ in range(5)) < HELP_SECONDS


def test_help_pulls_nothing_heavy() -> None:
    code = (
        "import json, sys\n"
        "from profsuite.cli.app import app\n"
        "try: app(['--help'])\n"
        "except SystemExit: pass\n"
        "print(json.dumps(sorted(sys.modules)))"
    )
    loaded = json.loads(run(code).splitlines()[-1])
    assert not [name for name in loaded if name.split(".")[0] in set(HEAVY) - {"click"}]


def test_public_names_are_what_the_documentation_lists() -> None:
    import profsuite

    page = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    listed = re.findall(r"^\| `profsuite\.(\w+)", page, flags=re.MULTILINE)
    assert sorted(listed) == sorted(profsuite.__all__)
    for name in profsuite.__all__:
        assert getattr(profsuite, name) is not None
    assert dir(profsuite) == sorted(profsuite.__all__)


@pytest.mark.parametrize("name", [n for n in MODULES if not n.split(".")[-1].startswith("_")])
def test_public_names_have_docstrings(name: str) -> None:
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name not in OPTIONAL:
            raise
        pytest.skip(f"{error.name} is not installed")
    assert module.__doc__, f"{name} has no docstring"
    for public, value in vars(module).items():
        if public.startswith("_") or not (inspect.isclass(value) or inspect.isfunction(value)):
            continue
        if value.__module__ == name:
            assert inspect.getdoc(value), f"{name}.{public} has no docstring"


def test_no_module_has_a_name_that_says_nothing() -> None:
    said = {name.split(".")[-1] for name in MODULES}
    assert not said & {"utils", "util", "common", "helpers", "helper", "manager", "misc"}


def test_constraints_pin_every_dependency_within_its_bounds() -> None:
    from packaging.requirements import Requirement

    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").split()
    pins = dict(line.lower().split("==") for line in lines)
    project = PYPROJECT["project"]
    extras = [text for name in ("fast", "query", "dev") for text in project["optional-dependencies"][name]]
    for text in (*project["dependencies"], *extras):
        requirement = Requirement(text)
        if requirement.name == "profsuite":
            continue
        assert requirement.specifier.contains(pins[requirement.name.lower()]), text


def test_version_is_said_once_in_each_place() -> None:
    import profsuite

    assert PYPROJECT["project"]["version"] == profsuite.__version__
    assert "## [Unreleased]" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_importing_a_top_folder_is_banned() -> None:
    banned = PYPROJECT["tool"]["ruff"]["lint"]["flake8-tidy-imports"]["banned-api"]
    assert set(banned) == {"analyzers", "collector", "dashboard", "exporters"}
    assert "TID" in PYPROJECT["tool"]["ruff"]["lint"]["select"]
