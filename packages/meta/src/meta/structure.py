"""The structure of arguments and results as plain data: tensors numbered, all else by value.

Flows in: nested containers. Flows out: JSON values, lists of tensors, and containers again.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable, Sequence
from typing import Any

import torch

Form = dict[str, Any]
"""`{"tensor": number}`, `{"value": plain value}`, `{"list" | "tuple": forms}`, `{"dict": pairs of key and form}` or
`{"named": [name, field names, forms]}`."""

_PLAIN = (bool, int, float, str, type(None))


def facts(tensor: torch.Tensor) -> list[Any]:
    """A tensor's dtype, device, sizes and strides."""
    return [str(tensor.dtype), str(tensor.device), list(tensor.shape), list(tensor.stride())]


def describe(value: Any, number: Callable[[torch.Tensor, str], int], where: str = "") -> Form:
    """The form of a value. `number` says what number a tensor has, given where it is. Subclasses of dict become dicts.

    Raises:
        TypeError: there is something in it that is neither a tensor nor plain.
    """
    if isinstance(value, torch.Tensor):
        return {"tensor": number(value, where)}
    if type(value) in _PLAIN:
        return {"value": value}
    if isinstance(value, dict):
        if any(type(key) not in (str, int) for key in value):
            raise TypeError(f"{where or 'a dict'} has keys that are neither str nor int")
        return {"dict": [[key, describe(item, number, f"{where}[{key!r}]")] for key, item in value.items()]}
    if isinstance(value, tuple | list):
        forms = [describe(item, number, f"{where}[{at}]") for at, item in enumerate(value)]
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            return {"named": [type(value).__name__, list(value._fields), forms]}
        if type(value) in (tuple, list):
            return {"tuple" if isinstance(value, tuple) else "list": forms}
    raise TypeError(f"{where or 'the result'} is a {type(value).__name__}, neither a tensor nor plain data")


def flatten(value: Any, form: Form, into: list[Any], where: str) -> None:
    """Put the tensors of a value of this form into `into`, in the order of their numbers.

    Raises:
        TypeError, ValueError: it is of another form; the message says where.
    """
    ((kind, wanted),) = form.items()
    if kind == "tensor":
        if not isinstance(value, torch.Tensor):
            raise TypeError(f"{where} is a {type(value).__name__}, not a tensor")
        into[wanted] = value
    elif kind == "value":
        if type(value) is not type(wanted) or repr(value) != repr(wanted):
            raise ValueError(f"{where} is {value!r}, and the model was packaged for {wanted!r}")
    elif kind == "dict":
        if not isinstance(value, dict) or value.keys() != {key for key, _ in wanted}:
            raise ValueError(f"{where} is no dict with the keys {', '.join(repr(key) for key, _ in wanted)}")
        for key, item in wanted:
            flatten(value[key], item, into, f"{where}[{key!r}]")
    else:
        forms = wanted[2] if kind == "named" else wanted
        if not isinstance(value, list if kind == "list" else tuple) or len(value) != len(forms):
            raise ValueError(f"{where} is no {'list' if kind == 'list' else 'tuple'} of {len(forms)}")
        for at, (item, part) in enumerate(zip(value, forms, strict=True)):
            flatten(item, part, into, f"{where}[{at}]")


def builder(form: Form) -> Callable[[Sequence[Any]], Any]:
    """What makes a value of this form of tensors by number."""
    ((kind, content),) = form.items()
    if kind == "tensor":
        return lambda tensors: tensors[content]
    if kind == "value":
        return lambda tensors: content
    if kind == "dict":
        items = [(key, builder(item)) for key, item in content]
        return lambda tensors: {key: make(tensors) for key, make in items}
    makers = [builder(item) for item in (content[2] if kind == "named" else content)]
    if kind == "list":
        return lambda tensors: [make(tensors) for make in makers]
    if kind == "tuple":
        return lambda tensors: tuple(make(tensors) for make in makers)
    kept = namedtuple(content[0], content[1])  # type: ignore[misc]
    return lambda tensors: kept(*(make(tensors) for make in makers))
