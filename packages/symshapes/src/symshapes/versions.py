"""Which interpreters and torch releases the parts run on. Flows in: versions. Flows out: an ImportError or one warning."""

from __future__ import annotations

import sys
import warnings

import torch

PYTHON_RANGE = ((3, 11), (3, 14))
"""Lowest and highest CPython supported, both inclusive."""
TORCH_RANGE = ((2, 11), (2, 13))
"""Lowest torch supported and newest tested, both inclusive."""

_warned: set[tuple[int, ...]] = set()


def _text(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))


def check_versions(package: str, *, python: tuple[int, ...] | None = None, torch_version: str | None = None) -> None:
    """Called by each package when it is imported.

    Args:
        package: the importing package, named in the message.
        python: interpreter version, the running one by default.
        torch_version: like "2.13.0+cpu", the imported torch's by default.

    Raises:
        ImportError: the interpreter is outside PYTHON_RANGE, or torch is older than TORCH_RANGE.

    Warns once a process where torch is newer than the tested range.
    """
    running = tuple((python or sys.version_info)[:2])
    if not PYTHON_RANGE[0] <= running <= PYTHON_RANGE[1]:
        raise ImportError(
            f"{package} supports CPython {_text(PYTHON_RANGE[0])} to {_text(PYTHON_RANGE[1])}; this is {_text(running)}."
        )
    release = (torch_version or torch.__version__).split("+")[0].split(".")
    found = (int(release[0]), int(release[1]))
    if found < TORCH_RANGE[0]:
        raise ImportError(
            f"{package} needs torch {_text(TORCH_RANGE[0])} or newer; installed is {torch_version or torch.__version__}."
        )
    if found > TORCH_RANGE[1] and found not in _warned:
        _warned.add(found)
        warnings.warn(
            f"torch {_text(found)} is newer than {_text(TORCH_RANGE[1])}, the newest these packages were tested with.",
            stacklevel=3,
        )
