"""Builds the C extension: as hatchling's hook for a wheel, or in place with `python hatch_build.py --inplace`.

One plain compiler call over `src/capture/_native/*.c`; needs a C compiler and Python's headers, and nothing of torch.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

try:
    from hatchling.builders.hooks.plugin.interface import BuildHookInterface  # type: ignore[import-not-found,unused-ignore]
except ImportError:  # in place, for development: hatchling is not needed
    BuildHookInterface = object  # type: ignore[assignment,misc,unused-ignore]

HERE = Path(__file__).resolve().parent
SOURCES = HERE / "src" / "capture" / "_native"
# NDEBUG: Python's macros check what they are given otherwise, at every call of a compiled function.
FLAGS = ["-O3", "-DNDEBUG", "-g0", "-std=gnu11", "-fPIC", "-fvisibility=hidden", "-fno-strict-aliasing"]
SUPPORTED = ((3, 11), (3, 12), (3, 13), (3, 14))


class BuildError(Exception):
    """The extension cannot be built here; the message says what to install."""


def extension_name() -> str:
    """The file that this interpreter imports as `capture._native`."""
    return f"_native{sysconfig.get_config_var('EXT_SUFFIX')}"


def find_compiler() -> list[str]:
    """`$CC`, what Python was built with, or the first usual name on the PATH."""
    candidates = [os.environ.get("CC"), sysconfig.get_config_var("CC"), "cc", "gcc", "clang"]
    for candidate in filter(None, candidates):
        command = shlex.split(candidate)
        if shutil.which(command[0]):
            return command
    raise BuildError(
        "capture needs a C compiler to build its frame hook and found none. Install one "
        "(Debian and Ubuntu: apt install gcc; Fedora: dnf install gcc; macOS: xcode-select --install) "
        "or name it in the environment variable CC."
    )


def include_directories() -> list[str]:
    """Where Python.h and the interpreter's internal headers lie."""
    paths = dict.fromkeys(sysconfig.get_path(name) for name in ("include", "platinclude"))
    for path in paths:
        if Path(path, "Python.h").exists() and Path(path, "internal", "pycore_frame.h").exists():
            return list(paths)
    version = f"{sys.version_info[0]}.{sys.version_info[1]}"
    raise BuildError(
        f"capture needs the headers of Python {version}, and {sysconfig.get_path('include')} has no "
        f"Python.h with internal/pycore_frame.h. Install them (Debian and Ubuntu: apt install "
        f"python{version}-dev; Fedora: dnf install python{version}-devel), or use a Python that comes with them."
    )


def build(target: Path) -> Path:
    """Compile to `target`, a directory; the extension's path. Raises `BuildError` in words."""
    if sys.implementation.name != "cpython" or sys.version_info[:2] not in SUPPORTED:
        raise BuildError(f"capture builds on CPython 3.11 to 3.14, not on {sys.version}")
    if sysconfig.get_config_var("Py_GIL_DISABLED"):
        raise BuildError("capture does not work on free-threaded builds of Python: use one with the GIL")
    output = target / extension_name()
    link = ["-bundle", "-undefined", "dynamic_lookup"] if sys.platform == "darwin" else ["-shared"]
    partial = output.with_suffix(f".{os.getpid()}.tmp")
    command = [
        *find_compiler(),
        *FLAGS,
        *shlex.split(os.environ.get("CFLAGS", "")),
        *link,
        *(f"-I{path}" for path in include_directories()),
        *map(str, sorted(SOURCES.glob("*.c"))),
        "-o",
        str(partial),
    ]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        partial.unlink(missing_ok=True)
        raise BuildError(f"the C compiler failed on capture's frame hook:\n{shlex.join(command)}\n{done.stderr}")
    partial.replace(output)  # an interpreter that has the old file loaded keeps it
    return output


class NativeBuildHook(BuildHookInterface):  # type: ignore[type-arg,unused-ignore]
    """Puts the extension into the wheel, and marks the wheel as made for this interpreter."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Called by hatchling before it packs."""
        if self.target_name != "wheel":
            return
        directory = HERE / "src" / "capture" if version == "editable" else HERE / "build"
        directory.mkdir(exist_ok=True)
        output = build(directory)
        build_data["pure_python"] = False
        build_data["infer_tag"] = True
        if version != "editable":
            build_data["force_include"][str(output)] = f"capture/{output.name}"


def main() -> int:
    """`--inplace` puts the extension next to the package's Python files."""
    if sys.argv[1:] != ["--inplace"]:
        print("usage: python hatch_build.py --inplace", file=sys.stderr)
        return 2
    try:
        print(build(HERE / "src" / "capture"))
    except BuildError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
