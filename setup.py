"""The C scanner; everything else is declared in pyproject.toml.

The extension is optional: without a compiler or the Python headers the build goes on, and profsuite
reads traces with the slower reader in Python (``profsuite doctor`` says which one is used).
"""

import sysconfig
from pathlib import Path

from setuptools import Extension, setup

# A free-threaded build of Python has no limited API.
LIMITED_API = not sysconfig.get_config_var("Py_GIL_DISABLED")

setup(
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
