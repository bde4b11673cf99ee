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
from symshapes import own_folders as _own_folders

from . import config
from .api import compile, disable, explain, report, reset, trace
from .bytecode.dialect import current as _current_dialect
from .errors import CaptureError, GraphBreakError, GraphRefused, InternalError
from .graph import Break, CapturedGraph
from .notices import CaptureWarning
from .report import Trace

__all__ = [
    "Break",
    "CaptureError",
    "CaptureWarning",
    "CapturedGraph",
    "Dim",
    "GraphBreakError",
    "GraphRefused",
    "InternalError",
    "MarkError",
    "Trace",
    "compile",
    "config",
    "constrain_range",
    "disable",
    "explain",
    "mark_dynamic",
    "mark_static",
    "mark_unbacked",
    "maybe_mark_dynamic",
    "report",
    "reset",
    "trace",
]

_own_folders(__path__)
_current_dialect()  # loaded now: a fork while another thread imports would leave the child waiting for that import's lock
