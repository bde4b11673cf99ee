"""Dtypes that eager has no kernel for: a rule knows sizes, and the code made of it would compute where eager refuses.

In: an operator that only computes, and what it is given, metadata in the place of tensors. Out: the kernel's own error. The kernel is asked
once for each operator and dtypes, with few elements on the host; of floats, which nearly all have kernels for, nothing is asked.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.utils._pytree import tree_map

from symshapes import _torch
from symshapes.rules.layout import TensorMeta

#: Families of rules whose operators are safe to ask: by their numbers they choose no place in memory. And whether they mostly take operands of
#: several dtypes.
FAMILIES = {"symshapes.rules.losses": False, "symshapes.rules.pointwise": True, "symshapes.rules.reductions": True}

#: Nothing is asked where one of these is computed with.
FLOATS = frozenset({torch.float16, torch.bfloat16, torch.float32, torch.float64})
#: What stands for a number that is computed with, of which only the kind counts.
_NUMBERS = {int: 1, torch.SymInt: 1, float: 1.0, torch.SymFloat: 1.0, bool: True, torch.SymBool: True}
_PLAIN = frozenset(
    {str, bool, int, float, complex, type(None), torch.dtype, torch.layout, torch.device, torch.memory_format}
)
_BOUND = 4096
_ANSWERS: dict[Any, tuple[Exception | None]] = {}
_UNASKED: dict[Callable[..., Any], Callable[..., Any]] = {}


class _Unknown(Exception):
    """An argument of which it is not known what stands for it."""


def asking(op: Any, rule: Callable[..., Any], *, promotes: bool = True) -> Callable[..., Any]:
    """A rule that raises what the operator's kernel raises where there is none for what is given. `promotes`: for one float among others there is."""
    kinds = {at: str(each.type) for at, each in enumerate(op._schema.arguments)}
    kinds |= {each.name: str(each.type) for each in op._schema.arguments}

    def asked(*args: Any, **kwargs: Any) -> Any:
        made = rule(*args, **kwargs)  # which has more to say of what it refuses
        dtypes = {value.dtype for value in (*args, *kwargs.values()) if type(value) is TensorMeta}
        exact = any(type(value) is complex for value in (*args, *kwargs.values()))
        if exact or dtypes.isdisjoint(FLOATS) or not (promotes or len(dtypes) == 1):
            # Labels are 0 then, which all kernels have memory for; where nothing is a label, divisors are 1.
            refusal = _refusal(op, kinds, dict(enumerate(args)) | kwargs, exact, int(promotes))
            if refusal is not None:
                raise type(refusal)(*refusal.args)
        return made

    _UNASKED[asked] = rule
    return asked


def unasked(rule: Callable[..., Any]) -> Callable[..., Any] | None:
    """The rule that such a one asks for; None of any other."""
    return _UNASKED.get(rule)


def _refusal(op: Any, kinds: dict[Any, str], given: dict[Any, Any], exact: bool, element: int) -> Exception | None:
    """What the kernel raises: of complex numbers that it takes none, else that it is none for these dtypes. `exact`: numbers are as they are.

    `element`: what all tensors hold.
    """
    if _torch.levels():
        return None  # of function transforms, which kernels within it would ask
    try:
        told = {at: _told(value, kinds[at], exact) for at, value in given.items()}
    except _Unknown:
        return None
    key = op, torch.get_default_dtype(), *((at, type(value), value) for at, value in told.items())
    found = _ANSWERS.get(key)
    if found is None:
        with _torch.NoDispatchModes(), _torch.no_torch_function():
            found = (_asked(op, told, exact, element),)
        if len(_ANSWERS) >= _BOUND:
            _ANSWERS.clear()
        _ANSWERS[key] = found
    return found[0]


def _asked(op: Any, told: dict[Any, Any], exact: bool, element: int) -> Exception | None:
    try:
        real = {at: _real(value, element) for at, value in told.items()}
    except Exception:  # nothing fills a tensor of the dtype: eager has those as views only
        return None
    args = [real[at] for at in sorted(at for at in real if isinstance(at, int))]
    kwargs = {at: value for at, value in real.items() if isinstance(at, str)}
    try:
        _torch.cpu_kernel(op, *args, **kwargs)
    except NotImplementedError as error:
        return error.with_traceback(None)
    except RuntimeError as error:
        # Which may be of what stands for sizes and numbers here: not if it is none of floats'.
        return error.with_traceback(None) if exact or _is_fine(op, *tree_map(_floating, [args, kwargs])) else None
    except Exception:
        return None
    return None


def _is_fine(op: Any, args: list[Any], kwargs: dict[str, Any]) -> bool:
    try:
        _torch.cpu_kernel(op, *args, **kwargs)
    except Exception:
        return False
    return True


def _floating(value: Any) -> Any:
    return torch.full_like(value, 1, dtype=torch.float32) if isinstance(value, torch.Tensor) else value


def forget_kernels() -> None:
    """Forget what kernels answered, and which rules ask them."""
    _ANSWERS.clear()
    _UNASKED.clear()


class _Like(tuple[torch.dtype, tuple[int, ...]]):
    """The dtype of a tensor, and few elements that broadcast as its do: none if it has none, of which many kernels ask no dtype."""


def _told(value: Any, kind: str, exact: bool) -> Any:
    """What of an argument counts. `kind`: what the schema says that it is."""
    if type(value) is TensorMeta:
        if value.device.type != "cpu":
            raise _Unknown
        return _Like((value.dtype, tuple([min(size, 2) if type(size) is int else 2 for size in value.size])))
    if type(value) in (list, tuple):
        return tuple([_told(each, kind, exact) for each in value])
    if "Tensor" in kind and value is not None:
        raise _Unknown  # a number, which only rules take there
    if ("number" in kind or "float" in kind) and not (exact and type(value) in _PLAIN):
        value = _NUMBERS.get(type(value), value)
    if type(value) not in _PLAIN:
        raise _Unknown
    return value


def _real(value: Any, element: int) -> Any:
    if type(value) is _Like:
        return torch.full(value[1], element, dtype=value[0])
    return list(value) if type(value) is tuple else value
