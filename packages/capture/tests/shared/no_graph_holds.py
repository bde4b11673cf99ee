"""Tensors that no graph holds, of each kind, and the comparison of programs over them with plain Python."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch.masked import masked_tensor

import capture

Make = Callable[[], torch.Tensor]


class Scaled(torch.Tensor):
    """Asked below autograd, and differentiated through."""

    values: torch.Tensor

    @staticmethod
    def __new__(cls, values: torch.Tensor) -> Any:
        return torch.Tensor._make_wrapper_subclass(
            cls, values.shape, dtype=values.dtype, strides=values.stride(), requires_grad=values.requires_grad
        )

    def __init__(self, values: torch.Tensor) -> None:
        self.values = values

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = [each.values if isinstance(each, Scaled) else each for each in args]
        made = func(*given, **(kwargs or {}))
        return cls(made) if isinstance(made, torch.Tensor) else made


def data() -> torch.Tensor:
    return torch.arange(12.0).reshape(3, 4) / 4


def jagged() -> torch.Tensor:
    parts = [torch.arange(8.0).reshape(2, 4), torch.arange(12.0).reshape(3, 4)]
    return torch.nested.nested_tensor(parts, layout=torch.jagged)


def strided() -> torch.Tensor:
    return torch.nested.nested_tensor([torch.arange(8.0).reshape(2, 4), torch.arange(12.0).reshape(3, 4)])


def masked() -> torch.Tensor:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made: torch.Tensor = masked_tensor(data(), data() > 1)
        return made


def quantised_tensor() -> torch.Tensor:
    return torch.quantize_per_tensor(data(), 0.1, 0, torch.quint8)


KINDS: dict[str, Make] = {
    "jagged": jagged,
    "strided": strided,
    "masked": masked,
    "coo": lambda: data().to_sparse(),
    "csr": lambda: data().to_sparse_csr(),
    "mkldnn": lambda: data().to_mkldnn(),
    "wrapper": lambda: Scaled(data()).requires_grad_(),
}


def plain(value: Any) -> Any:
    """What can be compared of a value."""
    if isinstance(value, tuple | list):
        return [type(value), *map(plain, value)]
    if isinstance(value, dict):
        return {key: plain(each) for key, each in value.items()}
    if not isinstance(value, torch.Tensor):
        return value
    facts = [type(value), value.layout, value.dtype, value.requires_grad]
    if isinstance(value, Scaled):
        return [*facts, plain(value.values)]
    if hasattr(value, "full_tensor"):
        return [*facts, plain(value.full_tensor())]
    if value.is_nested:
        return [*facts, [each.tolist() for each in value.unbind()]]
    if hasattr(value, "get_mask"):
        return [*facts, value.get_data().tolist(), value.get_mask().tolist()]
    if value.is_quantized:
        return [*facts, value.int_repr().tolist(), value.q_scale()]
    return [*facts, value.detach().to_dense().tolist()]


def check(fn: Callable[..., Any], make: Callable[[], tuple[Any, ...]], graphs: int, breaks: int) -> Any:
    """Three calls give what the plain program gives, with so many graphs and breaks."""
    capture.reset()
    compiled = capture.compile(fn)
    for _ in range(3):
        assert plain(compiled(*make())) == plain(fn(*make()))
    report = compiled.session.report
    assert (report.graph_count, report.break_count) == (graphs, breaks), str(report)
    return report


def run_of_operations(t: Any) -> Any:
    x = t * 2
    y = x + x
    z = y * 0.5
    w = z + t
    return w
