"""Functions whose own frames the program keeps out of graphs, while what they call is captured: ``disable(recursive=False)``.

In: Python functions, marked here or by ``torch._dynamo.skip``. Out: whether a function is such a one, and why.
"""

from __future__ import annotations

from types import CodeType, FunctionType

from . import _native
from .identity_map import IdentityMap

#: What a graph break at a call of what is kept out says, before the program's own reason.
KEPT_OUT = "call of a function that is kept out of graphs (capture.disable, torch.compiler.disable)"

_CODES: IdentityMap[CodeType, str] = IdentityMap()


def keep_out(code: CodeType, reason: str) -> None:
    """Leave frames of this code to the interpreter, whatever captures; what they call may be captured."""
    _CODES[code] = reason
    _native.mark_skip(code)


def kept_out(function: FunctionType) -> str | None:
    """The reason that the program gave, "" if it gave none; None for a function that is not kept out."""
    found = _CODES.get(_native.function_code(function))
    own = function.__dict__
    # With an id it is of a wrapper, whose place tells it; `functools.wraps` copies it onto others.
    if found is None and own.get("_torchdynamo_disable") is True and "_torchdynamo_wrapper_id" not in own:
        return str(own.get("_torchdynamo_disable_msg") or "")
    return found


def refusal(reason: str | None) -> str:
    """What a graph break says at a call of what is kept out."""
    return f"{KEPT_OUT}: {reason}" if reason else KEPT_OUT
