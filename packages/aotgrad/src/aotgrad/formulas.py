"""Operators whose own formula for gradients no trace can follow, as when it looks at data: one call asks for them as it runs.

In: a call of an operator that has a formula in Python (`torch.library.register_autograd`). Out: its results, whose backward
is a call of an operator `aotgrad::gradients_of__...`, which has autograd apply the formula to values.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import fx
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from aotgrad import _torch
from aotgrad.errors import Unsupported
from symshapes import FakeTensor, facts_of, in_turn, register_fake

_library = torch.library.Library("aotgrad", "FRAGMENT")

_names: Counter[str] = Counter()
"""Of operators made here: one that was defined anew, as in a notebook, is another."""

_PLAIN = (type(None), bool, int, float, complex, str, torch.dtype, torch.device, torch.Size)


def operator_of(call: fx.Node | None) -> Any | None:
    """The operator with a formula of its own that a graph calls there; None if it is not known to be one.

    What has several overloads is not: which of them is called only the dispatcher knows.
    """
    target = None if call is None else call.target
    if isinstance(target, _torch.OpOverloadPacket):
        overloads = target.overloads()
        target = getattr(target, overloads[0]) if len(overloads) == 1 else None
    if not isinstance(target, _torch.OpOverload) or not _torch.has_formula(target):
        return None
    facts = facts_of(target)
    plain = facts.pure and all(str(result.type) == "Tensor" for result in target._schema.returns)
    return target if plain else None


def by_itself(op: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call `op` under a trace, its formula to be applied when the backward runs.

    Raises Unsupported where autocast may cast its arguments, which would be done once more.
    """
    results = op(*args, **kwargs)
    several = isinstance(results, tuple)
    made: tuple[Any, ...] = results if several else (results,)
    node = next((r.grad_fn for r in made if r.grad_fn is not None), None)
    if not isinstance(node, torch.autograd.function.BackwardCFunction):
        return results
    leaves, spec = pytree.tree_flatten((args, kwargs))
    tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
    if any(_torch.autocasts(op, t.device) for t in tensors):
        raise Unsupported(f"{op} under autocast, whose gradients only the run can tell")
    others = [None if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]

    def rebuilt(given: Sequence[torch.Tensor]) -> Any:
        left = iter(given)
        return pytree.tree_unflatten(
            [
                next(left) if isinstance(leaf, torch.Tensor) else other
                for leaf, other in zip(leaves, others, strict=True)
            ],
            spec,
        )

    differentiable = tuple(result.requires_grad for result in made)
    asked = _Asked(op, rebuilt, differentiable, _keeps_only(node, tensors))
    found = _AsItRuns.apply(asked, *tensors)  # type: ignore[no-untyped-call]
    return found if several else found[0]


def _keeps_only(node: Any, inputs: Sequence[torch.Tensor]) -> bool:
    """Whether a formula kept inputs, numbers and the like for its backward, so that it needs no result's values."""
    keys = {t.storage_key for t in inputs if isinstance(t, FakeTensor)}
    kept = [*node.saved_tensors, *pytree.tree_leaves(vars(node))]
    return all(v.storage_key in keys if isinstance(v, FakeTensor) else type(v) in _PLAIN for v in kept)


class _Asked:
    """A call of an operator: how it is made again of tensors, which results have gradients, whether they need be kept."""

    def __init__(
        self,
        op: Any,
        rebuilt: Callable[[Sequence[torch.Tensor]], Any],
        differentiable: tuple[bool, ...],
        without_results: bool,
    ) -> None:
        self.op = op
        self.rebuilt = rebuilt
        self.differentiable = differentiable
        self.without_results = without_results


class _AsItRuns(torch.autograd.Function):
    """The operator, with one call for its backward."""

    @staticmethod
    def forward(ctx: Any, asked: _Asked, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        args, kwargs = asked.rebuilt(tensors)
        found = asked.op(*args, **kwargs)
        results = found if isinstance(found, tuple) else (found,)
        marked = [r for r, needed in zip(results, asked.differentiable, strict=True) if not needed]
        ctx.mark_non_differentiable(*marked)
        kept = () if asked.without_results and not marked else results
        ctx.save_for_backward(*tensors, *kept)
        ctx.asked, ctx.count = asked, len(tensors)
        return results

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *tangents: torch.Tensor) -> Any:
        asked = ctx.asked
        tensors, results = ctx.saved_tensors[: ctx.count], ctx.saved_tensors[ctx.count :]
        given = [t for t, needed in zip(tangents, asked.differentiable, strict=True) if needed]
        wanted = ctx.needs_input_grad[1:]
        args, kwargs = asked.rebuilt(tensors)
        found = gradient_operator(asked.op, wanted)(list(results), given, *args, **kwargs)
        gradients = iter(found if isinstance(found, tuple) else (found,))
        return None, *(next(gradients) if needed else None for needed in wanted)


@in_turn
@functools.cache
def gradient_operator(op: Any, wanted: tuple[bool, ...]) -> Any:
    """The operator that gives gradients of `op`: `(results, tangents, *args of op) -> gradients`.

    `wanted`: for each tensor among the arguments, whether its gradient is. Results may be left out where the formula does
    not look at them; tangents are those of results that have gradients. What it gives is contiguous memory of its own.
    """
    namespace, _, name = op._schema.name.partition("::")
    mask = "".join("01"[needed] for needed in wanted)
    ours = "__".join(("gradients_of", namespace, name, op._overloadname, mask))
    before = _names[ours]
    _names[ours] += 1
    ours += f"__{before}" if before else ""
    text = str(op._schema)
    taken = text[text.index("(") + 1 : text.index(") -> ")]
    given = ", ".join(filter(None, ("Tensor[] given_results", "Tensor[] given_tangents", taken)))
    _library.define(f"{ours}({given}) -> ({', '.join(['Tensor'] * sum(wanted))})")

    def run(results: list[torch.Tensor], tangents: list[torch.Tensor], *args: Any, **kwargs: Any) -> Any:
        return _applied(op, wanted, results, tangents, args, kwargs)

    def shapes(results: Any, tangents: Any, *args: Any, **kwargs: Any) -> Any:
        tensors = [leaf for leaf in pytree.tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
        made = (
            torch.empty_like(t, memory_format=torch.contiguous_format)
            for t, needed in zip(tensors, wanted, strict=True)
            if needed
        )
        return _one_or_all(tuple(made))

    _library.impl(ours, run, "CompositeExplicitAutograd")
    register_fake(f"aotgrad::{ours}", shapes, _library)
    return getattr(torch.ops.aotgrad, ours).default


def _one_or_all(gradients: tuple[torch.Tensor, ...]) -> Any:
    return gradients[0] if len(gradients) == 1 else gradients


def _applied(
    op: Any,
    wanted: tuple[bool, ...],
    results: list[torch.Tensor],
    tangents: list[torch.Tensor],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Any:
    """Autograd's gradients of the call, whose results are known: the formula alone runs."""
    leaves, spec = pytree.tree_flatten((args, kwargs))
    places = [at for at, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
    for at, needed in zip(places, wanted, strict=True):
        leaves[at] = leaves[at].detach().requires_grad_(needed)
    again, named = pytree.tree_unflatten(leaves, spec)
    # A result that the formula does not look at is like its tangent.
    with _torch.DisableAutocast(), torch.enable_grad(), _Known(op, results or tangents):
        found = op(*again, **named)
    made = [r for r in (found if isinstance(found, tuple) else (found,)) if r.requires_grad]
    asked = [leaves[at] for at, needed in zip(places, wanted, strict=True) if needed]
    gradients = torch.autograd.grad(made, asked, tangents, allow_unused=True)
    taken = {t.untyped_storage()._cdata for t in (*tangents, *results, *(leaves[at] for at in places))}
    return _one_or_all(tuple(_own(op, gradient, taken) for gradient in gradients))


def _own(op: Any, gradient: torch.Tensor | None, taken: set[int]) -> torch.Tensor:
    """The gradient in contiguous memory that nothing else has."""
    if gradient is None:
        raise RuntimeError(
            f"{op} gave no gradient for an input that needs one; compiled code cannot tell that from zeros. "
            "Call it outside of what is compiled, or let its formula give zeros"
        )
    made = gradient.detach().contiguous()
    if made.untyped_storage()._cdata in taken:
        made = made.clone(memory_format=torch.contiguous_format)
    taken.add(made.untyped_storage()._cdata)
    return made


class _Known(TorchDispatchMode):
    """Below autograd the operator's results are there already."""

    def __init__(self, op: Any, results: Sequence[torch.Tensor]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.op = op
        self.results = results

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is not self.op:
            return func(*args, **(kwargs or {}))
        return _one_or_all(tuple(result.detach() for result in self.results))
