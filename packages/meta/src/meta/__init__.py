"""`meta.compile()`: capture, aotgrad, inductor and cpu_codegen wired together. Thin: no algorithm lives here.

What is named here is imported when it is asked for: a program that only loads packaged models needs none of the compiler.
"""

from importlib import import_module as _import_module
from importlib.metadata import version as _version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from capture import (
        allow_in_graph,
        assume_constant_result,
        disable,
        is_compiling,
        set_stance,
        substitute_in_graph,
    )
    from meta import backends
    from meta.api import compile, compile_module, reset
    from meta.backends import list_backends
    from meta.explanation import Explanation, explain, report
    from meta.loading import PackagedModel, load
    from meta.modes import MODES, Mode
    from meta.package_file import DamagedPackage
    from meta.packaging import NotPackageable, package
    from symshapes import (
        Dim,
        MarkError,
        constrain_range,
        mark_dynamic,
        mark_static,
        mark_unbacked,
        maybe_mark_dynamic,
    )

__all__ = [
    "MODES",
    "DamagedPackage",
    "Dim",
    "Explanation",
    "MarkError",
    "Mode",
    "NotPackageable",
    "PackagedModel",
    "allow_in_graph",
    "assume_constant_result",
    "backends",
    "compile",
    "compile_module",
    "constrain_range",
    "disable",
    "explain",
    "is_compiling",
    "list_backends",
    "load",
    "mark_dynamic",
    "mark_static",
    "mark_unbacked",
    "maybe_mark_dynamic",
    "package",
    "report",
    "reset",
    "set_stance",
    "substitute_in_graph",
]

_WHERE = {
    **dict.fromkeys(("compile", "compile_module", "reset"), "meta.api"),
    "list_backends": "meta.backends",
    **dict.fromkeys(
        (
            "allow_in_graph", "assume_constant_result", "disable", "is_compiling", "set_stance", "substitute_in_graph",
        ),
        "capture",
    ),
    **dict.fromkeys(("Explanation", "explain", "report"), "meta.explanation"),
    **dict.fromkeys(("PackagedModel", "load"), "meta.loading"),
    **dict.fromkeys(("MODES", "Mode"), "meta.modes"),
    "DamagedPackage": "meta.package_file",
    **dict.fromkeys(("NotPackageable", "package"), "meta.packaging"),
    **dict.fromkeys(
        (
            "Dim", "MarkError", "constrain_range", "mark_dynamic", "mark_static", "mark_unbacked",
            "maybe_mark_dynamic",
        ),
        "symshapes",
    ),
}  # fmt: skip
"""The module of each name; `backends` is one itself."""


def __getattr__(name: str) -> Any:
    if name == "__version__":
        # Read when asked for: the one place that says it is the repository's VERSION, and an import pays nothing for it.
        return _version("meta")
    if name == "backends":
        return _import_module("meta.backends")
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(_import_module(_WHERE[name]), name)
    return found
