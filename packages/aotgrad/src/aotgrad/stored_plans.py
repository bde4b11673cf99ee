"""Plans of inference as text, and back; and a program that runs by one.

Flows in: a `Plan`, or text that was made of one. Flows out: the other. Nothing here takes part in compiling.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.utils import _pytree as pytree

from aotgrad import _torch
from aotgrad.inference import Boxed, Plan, Taken, inference_runner
from aotgrad.signature import (
    Alias,
    Computed,
    Constant,
    InputItself,
    Mutation,
    Repeated,
    ResultSize,
    Shape,
    Signature,
)
from aotgrad.views import ViewStep
from symshapes import fields_of


class Unstorable(Exception):
    """A plan holds something that no text stands for; the message says what."""


def run_planned(plan: Plan, program: Callable[..., Any], inputs: Sequence[Any], compiled: Boxed) -> Callable[..., Any]:
    """What `compile` returned for such a program and inputs, and this compiled graph of it; the program holds no tensors."""
    return inference_runner(compiled, plan, Taken.of(program, inputs, (), plan.signature, draws=plan.draws))


def plan_text(plan: Plan) -> str:
    """The plan of a program that returns a flat tuple.

    Raises:
        Unstorable: it returns something else, or a view is made by an operator of somebody else's.
    """
    if not plan.signature.returns_tuple:
        raise Unstorable("a program that returns no flat tuple")
    return json.dumps(_written(plan), separators=(",", ":"))


def plan_of(text: str) -> Plan:
    """The plan that `plan_text` wrote.

    Raises:
        ValueError, KeyError, TypeError, AttributeError: it did not.
    """
    try:
        plan = _read(json.loads(text))
    except (RuntimeError, IndexError) as error:  # no device has that name; an operator of none
        raise ValueError(str(error)) from None
    if not isinstance(plan, Plan) or not isinstance(plan.signature, Signature):
        raise TypeError("no plan")
    return plan


_RECORDS = {
    kind.__name__: kind
    for kind in (
        *(Plan, Signature, Mutation, Computed, InputItself, Alias, Constant, Repeated, ResultSize, Shape, ViewStep),
    )
}
_TORCH = (torch.dtype, torch.layout, torch.memory_format)
_SEQUENCES: dict[str, Callable[[Any], Any]] = {"tuple": tuple, "list": list, "frozenset": frozenset, "Size": torch.Size}
_SPEC = {"spec": None}
"""Stands for the structure of a flat tuple, of as many values as there are outputs."""


def _written(value: Any) -> Any:
    if value is None or type(value) in (bool, int, str):
        return value
    kind = type(value).__name__
    if type(value) is float:
        return {"float": value.hex()}
    if _SEQUENCES.get(kind) is type(value):
        return {kind: [_written(item) for item in (sorted(value) if kind == "frozenset" else value)]}
    if type(value) is dict:
        return {"dict": [[_written(key), _written(item)] for key, item in value.items()]}
    if isinstance(value, _TORCH):
        return {"torch": str(value).removeprefix("torch.")}
    if type(value) is torch.device:
        return {"device": str(value)}
    if isinstance(value, _torch.OpOverload) and value.namespace == "aten":
        return {"aten": str(value).removeprefix("aten.")}
    if isinstance(value, pytree.TreeSpec):
        return _SPEC
    if _RECORDS.get(kind) is type(value):
        return {kind: [_written(getattr(value, name)) for name in fields_of(type(value))]}
    raise Unstorable(f"a {type(value).__qualname__}")


def _read(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    ((kind, content),) = value.items()
    if kind in _SEQUENCES:
        return _SEQUENCES[kind](map(_read, content))
    if kind in _RECORDS:
        return _record(_RECORDS[kind], [_read(item) for item in content])
    return _LEAVES[kind](content)


def _record(kind: Any, values: list[Any]) -> Any:
    if kind is Signature:
        given = dict(zip(fields_of(Signature), values, strict=True))
        given["spec"] = pytree.tree_structure((0,) * len(given["outputs"]))
        return Signature(**given)
    return kind(*values)


def _of_torch(name: str) -> Any:
    found = getattr(torch, name)
    if not isinstance(found, _TORCH):
        raise TypeError(f"{name} is no dtype, layout or memory format")
    return found


_LEAVES: dict[str, Callable[[Any], Any]] = {
    "float": float.fromhex,
    "dict": lambda pairs: {_read(key): _read(item) for key, item in pairs},
    "torch": _of_torch,
    "device": torch.device,
    "aten": lambda name: functools.reduce(getattr, name.split("."), torch.ops.aten),
    "spec": lambda content: None,
}
