"""What is run: torch's operator database by name, a few sample calls of an operator, and what of it says nothing.

Flows in: names and dtypes. Flows out: samples as `(input, args, kwargs)`.
"""

from __future__ import annotations

import functools
import itertools
import re
import warnings
from typing import Any

import torch
from torch.utils import _pytree as pytree

DTYPES: dict[str, torch.dtype] = {
    "float32": torch.float32,
    "float64": torch.float64,
    "bfloat16": torch.bfloat16,
    "int64": torch.int64,
    "bool": torch.bool,
    "float16": torch.float16,
}
USUAL = ("float32", "float64", "bfloat16", "int64", "bool")
KINDS = ("forward", "gradients")

SKIPPED: dict[str, str] = {}
"""A regular expression for whole names of operators, and why they are not run."""

UNWRITTEN = "the result is memory that nothing was written to: sizes, strides and dtype are compared, values are not"
VALUES_SKIPPED: dict[str, str] = {
    r"empty|empty_like|new_empty|new_empty_strided|empty_strided|empty_permuted": UNWRITTEN,
}
"""A regular expression for whole names of operators, and why their values are not compared."""

UNWRITTEN_RESULTS: dict[str, tuple[tuple[int, ...], tuple[int, ...]]] = {
    "torch.ops.aten._flash_attention_forward": ((3,), (2,)),
    "torch.ops.aten._efficient_attention_forward": ((), (2, 3)),
}
"""Results of operators that are memory that nothing was written to, by their places: in all calls, and where nothing is dropped
(what then would be the generator's state). Their values are not compared, all others are."""

MANY = 64
"""Samples are chosen among at most so many of an operator's: some generate hundreds."""

Call = tuple[Any, tuple[Any, ...], dict[str, Any]]


@functools.cache
def operators() -> dict[str, Any]:
    """The database, by name and variant."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from torch.testing._internal import common_methods_invocations as database
    # Its random operators are wrapped in what saves and seeds the generators, which breaks graphs; here every run is seeded.
    database.wrapper_set_seed = lambda op, *args, **kwargs: op(*args, **kwargs)
    return {f"{op.name}.{op.variant_test_name}" if op.variant_test_name else op.name: op for op in database.op_db}


def reason(table: dict[str, str], name: str) -> str | None:
    """Why an operator is in one of the tables above, or None."""
    return next((why for pattern, why in table.items() if re.fullmatch(pattern, name)), None)


def without_unwritten(name: str, call: Call, results: Any) -> Any:
    """The results of a call with zeros for those that nothing was written to (see `UNWRITTEN_RESULTS`), laid out alike."""
    always, undropped = UNWRITTEN_RESULTS.get(name, ((), ()))
    places = {*always, *(() if call[2].get("dropout_p") else undropped)}
    if not places:
        return results
    return tuple(torch.zeros_like(result) if at in places else result for at, result in enumerate(results))


def without_unwritten_rows(name: str, call: Call, leaves: list[Any], gradients: list[Any]) -> None:
    """Put zeros where the gradients of some of a call's tensors (those of `leaves`) are memory that nothing was written to.

    Attention over sequences behind each other writes none for keys and values behind the last sequence's end.
    """
    ends = call[2].get("cu_seqlens_k")
    if name != "torch.ops.aten._efficient_attention_forward" or ends is None:
        return
    for tensor in call[1][:2]:
        for leaf, gradient in zip(leaves, gradients, strict=True):
            if leaf is tensor and gradient is not None:
                gradient[:, int(ends[-1]) :] = 0


def applies(name: str, dtype: str, kind: str, device: str = "cpu") -> bool:
    """Whether eager has the operator for the dtype, and gradients where these are asked for."""
    op, of = operators()[name], DTYPES[dtype]
    if not op.supports_dtype(of, device):
        return False
    return kind == "forward" or (
        of.is_floating_point and op.supports_autograd and of in op.supported_backward_dtypes(device)
    )


def calls(name: str, dtype: str, kind: str, count: int, device: str = "cpu") -> list[Call]:
    """At most `count` of an operator's sample calls, spread evenly over all kinds it has."""
    torch.manual_seed(0)
    found = operators()[name].sample_inputs(device, DTYPES[dtype], requires_grad=kind == "gradients")
    samples = list(itertools.islice(found, MANY))
    if len(samples) > count:
        samples = [samples[round(at * (len(samples) - 1) / max(count - 1, 1))] for at in range(count)]
    return [(s.input, tuple(s.args), dict(s.kwargs)) for s in samples]


def fresh(tree: Any) -> Any:
    """A copy of all tensors of a call, laid out alike, leaves again: an operator may write to its arguments."""
    return pytree.tree_map_only(torch.Tensor, _copied, tree)


def _copied(t: torch.Tensor) -> torch.Tensor:
    if t.layout is not torch.strided:
        return t.detach().clone().requires_grad_(t.requires_grad)
    size = sum((n - 1) * s for n, s in zip(t.shape, t.stride(), strict=True)) + 1 if t.numel() else 0
    offset = t.storage_offset()
    with torch.no_grad():
        flat = t.detach().as_strided((size,), (1,), offset).clone()
        copy = (
            flat.as_strided(t.shape, t.stride())
            if t.numel()
            else torch.empty_strided(t.shape, t.stride(), dtype=t.dtype, device=t.device)
        )
    if t.is_conj():
        copy = copy.conj_physical_().conj()
    return copy.requires_grad_(t.requires_grad)


FACTORS = tuple(1 - at / 64 for at in range(1, 17))
"""By which numbers are made smaller to be rounded in another way; themselves they are exact in every dtype."""


def alike(tree: Any, factor: float) -> Any:
    """A call that is like this one but for its rounding: all floating tensors a little smaller, by one factor.

    So what holds between elements (their order, symmetry, rank, being below 1) holds as before.
    """

    def smaller(value: torch.Tensor) -> torch.Tensor:
        if value.is_floating_point() and value.layout is torch.strided:
            # The memory, as a whole: elements of an expanded tensor share theirs.
            memory = value.detach().as_strided((value.untyped_storage().nbytes() // value.itemsize,), (1,), 0)
            memory.mul_(factor)
        return value

    return pytree.tree_map_only(torch.Tensor, smaller, fresh(tree))


def widened(tree: Any) -> Any:
    """A call with its floating tensors and dtypes in float64, without gradients of the originals."""

    def wide(value: Any) -> Any:
        if isinstance(value, torch.dtype):
            return torch.float64 if value.is_floating_point else value
        if isinstance(value, torch.Tensor) and value.is_floating_point():
            return value.detach().double().requires_grad_(value.requires_grad)
        return value

    return pytree.tree_map(wide, fresh(tree))
