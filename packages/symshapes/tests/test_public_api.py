"""The public names of symshapes and their signatures, against a golden file (REWRITE_GOLDEN=1 writes it anew)."""

import enum
import inspect
import os
from pathlib import Path

import sympy

import symshapes

GOLDEN = Path(__file__).parent / "golden" / "public_api.txt"


def _signature(value) -> str:
    """Names, kinds and defaults of the parameters; annotations print differently from one Python to the next."""
    try:
        signature = inspect.signature(value)
    except (TypeError, ValueError):
        return "(...)"
    bare = [
        p.replace(
            annotation=p.empty,
            default=_Name(p.default.__name__) if inspect.isfunction(p.default) else p.default,
        )
        for p in signature.parameters.values()
    ]
    return str(signature.replace(parameters=bare, return_annotation=signature.empty))


class _Name(str):
    """A function as a default, by name."""

    __slots__ = ()
    __repr__ = str.__str__


def _members(cls):
    for name, raw in sorted(vars(cls).items()):
        if name.startswith("_"):
            continue
        value = raw.__func__ if isinstance(raw, (classmethod, staticmethod)) else raw
        if isinstance(value, property):
            yield f"  {name}: property"
        elif inspect.isfunction(value):
            yield f"  {name}{_signature(value)}"


def describe() -> str:
    lines = []
    for name in sorted(symshapes.__all__):
        value = getattr(symshapes, name)
        if not inspect.isclass(value):
            lines.append(f"{name}{_signature(value)}" if callable(value) else name)
        elif issubclass(value, enum.Enum):
            lines += [f"enum {name}", *(f"  {member.name}" for member in value)]
        elif issubclass(value, BaseException):
            lines.append(f"exception {name}({value.__base__.__name__})")
        else:
            own = "__init__" in vars(value)
            lines.append(f"class {name}{_signature(value) if own else ''}")
            if value.__module__.startswith("symshapes") and not issubclass(value, sympy.Basic):
                lines += _members(value)
    return "\n".join(lines) + "\n"


def test_public_api():
    if os.environ.get("REWRITE_GOLDEN"):
        GOLDEN.parent.mkdir(exist_ok=True)
        GOLDEN.write_text(describe())
    assert describe() == GOLDEN.read_text(), "the public API changed: if it should, run with REWRITE_GOLDEN=1"
