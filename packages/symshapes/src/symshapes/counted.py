"""Operators of ATen that make a tensor of so many elements as their schema takes in a plain int, with a symbolic int in its place.

In: what the operator takes. Out: what it gives: its own kernel runs, once the count is known.
"""

from collections.abc import Callable
from typing import Any

import torch

from symshapes.rules.factories import linspace
from symshapes.rules.registry import register_rule

_OPTIONS = "ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None"
_SCHEMAS: dict[Callable[..., Any], str] = {
    torch.linspace: f"linspace(Scalar start, Scalar end, SymInt steps, *, {_OPTIONS}) -> Tensor",
    torch.logspace: f"logspace(Scalar start, Scalar end, SymInt steps, float base=10.0, *, {_OPTIONS}) -> Tensor",
}

_library = torch.library.Library("symshapes", "FRAGMENT")


def _define(function: Callable[..., Any], schema: str) -> Any:
    name = schema.partition("(")[0]
    _library.define(schema)
    _library.impl(name, function, "CompositeExplicitAutograd")
    operator = getattr(torch.ops.symshapes, name).default
    register_rule(operator)(linspace)
    return operator


counted_factories: dict[Callable[..., Any], Any] = {f: _define(f, schema) for f, schema in _SCHEMAS.items()}
"""By torch's function the operator that takes a symbolic count as its third argument, `steps`."""
