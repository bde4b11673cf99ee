"""Ops over lists of tensors (`_foreach_*`, what optimizers call): of each place of the lists what the op that they are named after gives."""

from collections.abc import Sequence
from functools import cache
from typing import Any

import torch

import symshapes.rules.pointwise  # noqa: F401  (its rules are looked up here)
from symshapes.facts import errors
from symshapes.rules.by_operator import aten
from symshapes.rules.kernels import FLOATS, asking
from symshapes.rules.layout import TensorMeta, same_shape
from symshapes.rules.reductions import reduced
from symshapes.rules.registry import DEMANDS, RULES, Rule, demanding, rule

#: Where the op has several overloads: the one for each of the overloads here.
_SINGLE: dict[str, dict[str, str]] = {
    **{
        name: dict.fromkeys(("Scalar", "List", "ScalarList", "Tensor"), f"{name}.Tensor")
        for name in ("add", "sub", "mul", "div")
    },
    **{
        name: {"Scalar": number, "List": name, "ScalarList": number}
        for names, number in ((("maximum", "clamp_min"), "clamp_min"), (("minimum", "clamp_max"), "clamp_max"))
        for name in names
    },
    "pow": {
        **dict.fromkeys(("Scalar", "List", "ScalarList"), "pow.Tensor_Tensor"),
        "ScalarAndTensor": "pow.Scalar",
    },
    "addcmul": dict.fromkeys(("Scalar", "ScalarList"), "addcmul"),
    "addcdiv": dict.fromkeys(("Scalar", "ScalarList"), "addcdiv"),
    "lerp": {"Scalar": "lerp.Scalar", "ScalarList": "lerp.Scalar", "List": "lerp.Tensor"},
}
_UNARY = (
    "abs", "acos", "asin", "atan", "ceil", "cos", "cosh", "erf", "erfc", "exp", "expm1", "floor", "frac", "lgamma",
    "log", "log10", "log1p", "log2", "neg", "reciprocal", "round", "rsqrt", "sigmoid", "sign", "sin", "sinh",
    "sqrt", "tan", "tanh", "trunc",
)  # fmt: skip
_SINGLE |= {name: {"default": name} for name in _UNARY}


def _each(name: str, single_name: str, in_place: bool) -> Rule:
    plain = demanding(DEMANDS.named.get(single_name), RULES.named[single_name])

    @cache
    def lists() -> list[bool]:
        (op,) = aten(name)
        return [str(argument.type) in ("List[Tensor]", "List[number]") for argument in op._schema.arguments]

    @cache
    def asked() -> Rule:
        (op,) = aten(single_name)
        return asking(op, plain)

    def run(*args: Any, **kwargs: Any) -> Any:
        given = [value for value, is_list in zip(args, lists(), strict=False) if is_list]
        if not given[0] or any(len(values) != len(given[0]) for values in given) or "self" in kwargs:
            return NotImplemented  # eager says what it refuses
        single = plain if FLOATS.issuperset(each.dtype for each in given[0]) else asked()
        results = [
            single(*[value[place] if is_list else value for value, is_list in zip(args, lists(), strict=False)])
            for place in range(len(given[0]))
        ]
        if not in_place:
            return results
        for target, result in zip(args[0], results, strict=True):
            if not same_shape(target.size, result.size):
                raise errors.unlike_target(target.size, result.size)
            if not torch.can_cast(result.dtype, target.dtype):
                raise errors.uncastable(result.dtype, target.dtype)
        return None

    return run


for _name, _overloads in _SINGLE.items():
    for _overload, _single in _overloads.items():
        for _suffix in ("", "_"):
            _whole = f"_foreach_{_name}{_suffix}" + (f".{_overload}" if _overload != "default" else "")
            rule(_whole)(_each(_whole, _single, bool(_suffix)))


@rule("_foreach_zero_")
def zero_each(self: Sequence[TensorMeta]) -> Any:
    """Nothing to refuse but an empty list."""
    return None if self else NotImplemented


@rule("_foreach_norm.Scalar")
def norm_each(self: Sequence[TensorMeta], ord: Any = 2, dtype: torch.dtype | None = None) -> Any:
    """A number of each."""
    norm = RULES.named["linalg_vector_norm"]
    return [norm(each, ord, dtype=dtype) for each in self] if self else NotImplemented


@rule("_foreach_max")
def max_each(self: Sequence[TensorMeta]) -> Any:
    """A number of each; of none there is no greatest."""
    return [reduced(each, None, False) for each in self] if self and all(map(_has_elements, self)) else NotImplemented


def _has_elements(each: TensorMeta) -> bool:
    return all(type(length) is int and length > 0 for length in each.size)


@rule(*[f"_fused_{name}_{kind}" for name in ("sgd", "adam", "adamw", "adagrad") for kind in ("", ".tensor_lr")])
def fused_step(*lists: Sequence[TensorMeta], grad_scale: Any = None, found_inf: Any = None, **options: Any) -> Any:
    """A step of an optimizer on parameters, gradients and states that are alike; what else there is eager looks at."""
    if grad_scale is not None or found_inf is not None or not lists[0]:
        return NotImplemented
    for tensors in lists:
        if not tensors:
            continue
        if len(tensors) != len(lists[0]):
            return NotImplemented
        for each, parameter in zip(tensors, lists[0], strict=True):
            alike = same_shape(each.size, parameter.size) and each.dtype is parameter.dtype
            if each.device != parameter.device or not (alike or (each.size == () and each.dtype is torch.float32)):
                return NotImplemented
    return None
