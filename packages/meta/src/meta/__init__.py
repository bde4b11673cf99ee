"""`meta.compile()`: capture, aotgrad, inductor and cpu_codegen wired together. Thin: no algorithm lives here."""

from importlib.metadata import version as _version

from meta import backends
from meta.api import compile, reset
from meta.explanation import Explanation, explain, report
from meta.modes import MODES, Mode
from symshapes import (
    Dim,
    MarkError,
    constrain_range,
    mark_dynamic,
    mark_static,
    mark_unbacked,
    maybe_mark_dynamic,
)
from symshapes import own_folders as _own_folders

__all__ = [
    "MODES",
    "Dim",
    "Explanation",
    "MarkError",
    "Mode",
    "backends",
    "compile",
    "constrain_range",
    "explain",
    "mark_dynamic",
    "mark_static",
    "mark_unbacked",
    "maybe_mark_dynamic",
    "report",
    "reset",
]

_own_folders(__path__)


def __getattr__(name: str) -> str:
    # Read when asked for: the one place that says it is the repository's VERSION, and an import pays nothing for it.
    if name == "__version__":
        return _version("meta")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
