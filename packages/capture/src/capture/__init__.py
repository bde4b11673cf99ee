"""Graph extraction from unmodified PyTorch programs: frame hook, symbolic evaluation of bytecode, guards, graph breaks."""

from . import interpreter as _interpreter  # noqa: F401  (first: it may refuse)

# isort: split
from symshapes import (
    Dim,
    MarkError,
    constrain_range,
    mark_dynamic,
    mark_static,
    mark_unbacked,
    maybe_mark_dynamic,
)
from symshapes import find_quickly as _find_quickly
from symshapes import imported_to_stay as _imported_to_stay
from symshapes import own_folders as _own_folders

with _imported_to_stay():
    _find_quickly(__spec__)
    from . import config
    from .api import compile, compile_module, explain, report, reset, trace
    from .backends import backend_named, list_backends
    from .bytecode.dialect import current as _current_dialect
    from .causes import Cause, cause_of
    from .errors import CaptureError, GraphBreakError, GraphRefused, InternalError, RecompileError
    from .graph import Break, CapturedGraph
    from .marks import allow_in_graph, assume_constant_result, disable, is_compiling, substitute_in_graph
    from .notices import CaptureWarning
    from .report import Trace
    from .stance import set_stance

__all__ = [
    "Break",
    "CaptureError",
    "CaptureWarning",
    "CapturedGraph",
    "Cause",
    "Dim",
    "GraphBreakError",
    "GraphRefused",
    "InternalError",
    "MarkError",
    "RecompileError",
    "Trace",
    "allow_in_graph",
    "assume_constant_result",
    "backend_named",
    "cause_of",
    "compile",
    "compile_module",
    "config",
    "constrain_range",
    "disable",
    "explain",
    "is_compiling",
    "list_backends",
    "mark_dynamic",
    "mark_static",
    "mark_unbacked",
    "maybe_mark_dynamic",
    "report",
    "reset",
    "set_stance",
    "substitute_in_graph",
    "trace",
]

_own_folders(__path__)
_current_dialect()  # loaded now: a fork while another thread imports would leave the child waiting for that import's lock
