"""What a backward had better compute again than read: cheap values of what it has anyway."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from typing import Any

import torch
from torch import fx

from aotgrad.partition.compared import is_compared
from aotgrad.partition.split import sources_of
from aotgrad.views import base_of, is_view
from symshapes import facts_if_operator, hint_of

aten = torch.ops.aten

CHEAP = {
    aten._to_copy.default,
    aten.clone.default,
    aten.full.default,
    aten.arange.start_step,
    aten.empty.memory_format,
    aten.slice_scatter.default,
    aten.select_scatter.default,
    aten.where.ScalarSelf,
    aten.where.ScalarOther,
    aten.where.Scalar,
    aten.rsub.Scalar,
}
"""Ops besides pointwise ones and views that cost next to nothing within a fused kernel."""

LEAST = 1 << 16
"""Bytes of a value below which it does not matter how the backward gets it."""
LONGEST = 16
"""Ops that are computed again for one value, at most."""


def without_recomputable(saved: Sequence[fx.Node], kept: Collection[fx.Node], mutated: set[fx.Node]) -> list[fx.Node]:
    """What of `saved` to save, and what else, if values that fused kernels alone read are made again where that reads no more
    memory. The pre-activation between a batch norm and its SiLU is such a value: the backward has what was normalised.

    Args:
        kept: values that live on in any case (results of the program).
        mutated: inputs that the program writes to: their old values are gone by then.
    """
    found = dict.fromkeys(saved)
    for node in reversed(saved):
        backward = {user for user in node.users if user.meta.get("backward")}
        if node in kept or not is_worth_it(node, backward):
            continue
        sources = made_of(node, found)
        if sources is None or mutated.intersection(sources):
            continue
        # Inputs that the backward gets for this alone are small, as a bias is: the program may write to them until then, which
        # is an error if they are saved and none if what was made of them is.
        size = bytes_of(node.meta["val"])
        new = [source for source in sources if source not in found]
        more = sum(bytes_of(source.meta["val"]) for source in new)
        if all(map(is_narrow, new)) and more < size:
            more = 0
        if 8 * more <= size and 8 * sum(bytes_of(source.meta["val"]) for source in sources) <= 9 * size:
            del found[node]
            found.update(dict.fromkeys(sources))
    return list(found)


def is_worth_it(node: fx.Node, computed: Collection[fx.Node]) -> bool:
    """Whether it is large, and of what is `computed` in the backward elementwise ops alone read it."""
    value = node.meta["val"]
    if (
        not isinstance(value, torch.Tensor)
        or bytes_of(value) < LEAST
        or is_view(node.target)
        or not is_recomputable(node)
        or is_compared(node)
    ):
        return False
    readers = [user for user in node.users if user in computed]
    return bool(readers) and all(map(reads_by_element, readers))


def reads_by_element(user: fx.Node) -> bool:
    """Whether a call needs of an argument's elements the one at the same place, as a cast does too."""
    facts = facts_if_operator(user.target)
    return facts is not None and (
        facts.elementwise or (user.target is aten._to_copy.default and {*user.kwargs} == {"dtype"})
    )


def made_of(node: fx.Node, saved: Collection[fx.Node]) -> list[fx.Node] | None:
    """What is saved, or given to the program, and what `node` can be computed from; None where something else is needed."""
    made: list[fx.Node] = []

    def is_made(part: fx.Node) -> bool:
        if part is not node and (part in saved or is_narrow(part) or part.op == "placeholder" or len(made) > LONGEST):
            return False
        if is_recomputable(part):
            made.append(part)
            return True
        return False

    sources = sources_of([node], is_made)
    if len(made) > LONGEST or not all(
        source in saved or is_narrow(source) or _can_be_saved(source) for source in sources
    ):
        return None
    return sources


def _can_be_saved(source: fx.Node) -> bool:
    """Whether a value may be saved for what is computed from it: given to the program, a size, or seeds of random numbers."""
    facts = facts_if_operator(source.target)
    known = source.meta.get("val")
    return source.op == "placeholder" or not isinstance(known, torch.Tensor) or (facts is not None and facts.random)


def is_narrow(node: fx.Node) -> bool:
    """Whether a value is there to be saved in place of what it is cast to (see `narrow.py`)."""
    return bool(node.meta.get("narrow"))


def is_recomputable(node: fx.Node) -> bool:
    """Whether a fused kernel that needs the value can compute it itself, from what it is made of."""
    if node.op == "get_attr":
        return True
    facts = facts_if_operator(node.target)
    if facts is None:
        return False
    if facts.views:
        return True
    if _copies_an_input(node):
        return False
    return facts.pure and (facts.elementwise or node.target in CHEAP)


def _copies_an_input(node: fx.Node) -> bool:
    """Whether the program copies what it was given: most likely since that changes before the backward runs."""
    if node.target is not aten.clone.default or node.kwargs.get("memory_format") is torch.contiguous_format:
        return False
    source: Any = node.args[0]
    return base_of(source).op == "placeholder"


def bytes_of(value: Any) -> int:
    """Bytes of a value's elements, by hint where a size is symbolic; none of a number."""
    if not isinstance(value, torch.Tensor):
        return 0
    return math.prod(hint_of(length) for length in value.shape) * value.element_size()
