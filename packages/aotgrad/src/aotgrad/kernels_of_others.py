"""Kernels that the program has given to torch's own operators: a call that eager runs by one is an operator that nothing is known of.

In: the kernels that the dispatcher has. Out: for an operator one of the same schema, `aotgrad::...__as_registered`, which calls it; no
decomposition, rewrite or lowering has it.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import torch
from torch.utils import _pytree as pytree

from aotgrad import _torch
from aotgrad.errors import Unsupported
from aotgrad.functional_forms import schema_texts
from symshapes import SYMBOLIC, facts_of, in_turn, register_fake

_library = torch.library.Library("aotgrad", "FRAGMENT")

NUMBERS = (bool, int, float, complex, *SYMBOLIC)


class KernelsOfOthers:
    """Those there are now. False if there are none."""

    def __init__(self) -> None:
        self._keys: dict[str, set[str]] = {}
        for operator, key in _torch.kernels_of_others():
            self._keys.setdefault(operator, set()).add(key)

    def __bool__(self) -> bool:
        return bool(self._keys)

    def form(self, op: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """What is called in the place of `op`, if one of them computes it for these arguments; else None.

        Raises Unsupported where a functional graph has no place for such a call, or eager would differentiate it in another way.
        """
        keys = self._keys.get(op.name())
        if keys is None:
            return None
        leaves = pytree.tree_leaves([args, dict(kwargs)])
        devices = {leaf.device for leaf in leaves if isinstance(leaf, torch.Tensor)}
        devices |= {torch.device(leaf) for leaf in [kwargs.get("device")] if leaf is not None}
        own = {_torch.key_of(device) for device in devices or {torch.get_default_device()}}
        if not any(key in own or key.startswith(("Composite", "Autograd")) for key in keys):
            return None
        facts = facts_of(op)
        if facts.written or facts.aliases or any(key.startswith("Autograd") for key in keys):
            raise Unsupported(f"{op} has a kernel of the program's own")
        given = dict(zip((argument.name for argument in op._schema.arguments), args, strict=False)) | dict(kwargs)
        numbers = [a.name for a in op._schema.arguments if _is_tensor(a) and isinstance(given.get(a.name), NUMBERS)]
        return _as_registered(op, tuple(numbers))


def _is_tensor(argument: Any) -> bool:
    return str(argument.type) in ("Tensor", "Optional[Tensor]")


@in_turn
@functools.cache
def _as_registered(op: Any, numbers: tuple[str, ...]) -> Any:
    """The operator for calls that give numbers for these tensors."""
    parameters = []
    texts, returned = schema_texts(str(op._schema))
    for argument, text in zip(op._schema.arguments, texts, strict=True):
        if argument.kwarg_only and "*" not in parameters:
            parameters.append("*")
        parameters.append(f"Scalar {argument.name}" if argument.name in numbers else text)
    name = "__".join([op.name().replace("::", "__").replace(".", "__"), *numbers, "as_registered"])
    _library.define(f"{name}({', '.join(parameters)}) -> ({', '.join(returned)})", tags=tuple(op.tags))
    _library.impl(name, _calling(op), "CompositeExplicitAutograd")
    register_fake(f"aotgrad::{name}", _calling(op), _library)
    return getattr(torch.ops.aotgrad, name).default


def _calling(op: Any) -> Any:
    return lambda *args, **kwargs: op(*args, **kwargs)
