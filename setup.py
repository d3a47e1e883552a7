"""The C scanner, and the pages of docs/ that the dashboard shows; everything else is declared in pyproject.toml.

The extension is optional: without a compiler or the Python headers the build goes on, and profsuite
reads traces with the slower reader in Python (``profsuite doctor`` says which one is used).
"""

import shutil
import sysconfig
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_py import build_py

# A free-threaded build of Python has no limited API.
LIMITED_API = not sysconfig.get_config_var("Py_GIL_DISABLED")

DEFINITIONS = ("analyses.md", "health.md")


class Build(build_py):
    """As setuptools', and the dashboard's definitions: from docs/, where they are written, into its package."""

    def run(self) -> None:
        """Copy the modules, then the definitions; an editable installation reads them where they are."""
        super().run()
        if not self.editable_mode:
            folder = Path(self.build_lib) / "profsuite" / "dashboard" / "definitions"
            folder.mkdir(parents=True, exist_ok=True)
            for name in DEFINITIONS:
                shutil.copyfile(Path("docs") / name, folder / name)


setup(
    cmdclass={"build_py": Build},
    ext_modules=[
        Extension(
            "profsuite.trace._scanner",
            sources=["src/profsuite/trace/_scanner.c"],
            depends=sorted(str(p) for p in Path("src/profsuite/trace").glob("*.h")),
            define_macros=[("Py_LIMITED_API", "0x030B0000")] if LIMITED_API else [],
            py_limited_api=LIMITED_API,
            extra_compile_args=[] if sysconfig.get_platform().startswith("win") else ["-O3"],
            optional=True,
        )
    ],
    options={"bdist_wheel": {"py_limited_api": "cp311"}} if LIMITED_API else {},
)
