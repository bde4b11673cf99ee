"""Values that a kernel of the backward makes of what it reads anyway, so that nobody has to save them.

In: a joint graph and the forward values to save. Out: those to save after all. A residual `y = x + scale * branch` is such a value: the
backward of what comes behind it (a layer norm) reads `y`, and right after that the gradient of `scale` reads `branch`. If the same kernel
reads `x`, which is saved, in place of `y`, it reads no more than before.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Sequence

from torch import fx

from aotgrad.joint import JointGraph
from aotgrad.partition.recompute import LONGEST, bytes_of, is_worth_it, made_of, reads_by_element
from aotgrad.partition.split import computed_in_backward
from symshapes import facts_if_operator, hint_of


def without_read_alongside(
    joint: JointGraph, saved: Sequence[fx.Node], kept: Collection[fx.Node], mutated: set[fx.Node]
) -> list[fx.Node]:
    """What of `saved` to save, and what else that is small, if values are made again where their sources are read.

    Args:
        kept: values that live on in any case (results of the program).
        mutated: inputs that the program writes to: their old values are gone by then.
    """
    found = dict.fromkeys(saved)
    computed = computed_in_backward(joint, found)
    sources_of_others: set[fx.Node] = set()
    for node in reversed(saved):
        if node in kept or node in sources_of_others or not is_worth_it(node, computed):
            continue
        sources = made_of(node, found)
        if sources is None or mutated.intersection(sources):
            continue
        size = bytes_of(node.meta["val"])
        large = [source for source in sources if 8 * bytes_of(source.meta["val"]) > size]
        if any(source not in found for source in large):
            continue
        beside = _read_beside(node, computed)
        read = [source for source in large if source not in beside]
        if beside and sum(bytes_of(source.meta["val"]) for source in read) <= size:
            del found[node]
            found.update(dict.fromkeys(sources))
            sources_of_others.update(sources)  # not made of further ones: a kernel would read those of a whole chain
    return list(found)


def _read_beside(node: fx.Node, computed: Collection[fx.Node]) -> set[fx.Node]:
    """The values that are read, element by element, with what elementwise ops of the backward make of `node`'s: the kernel that reads
    the one reads the other. None where that waits for totals of all rows, as in a batch norm: two kernels read `node` there."""
    shape = _shape(node)
    reached = {node: 0}
    totals: list[fx.Node] = []
    waiting = deque([node])
    while waiting:
        each = waiting.popleft()
        for user in each.users:
            if user in reached or user not in computed:
                continue
            if reads_by_element(user) and _shape(user) == shape:
                reached[user] = reached[each] + 1
                if reached[user] < LONGEST:
                    waiting.append(user)
            elif _is_small(user, node) and not _along_rows(user, shape):
                totals.append(user)
    if any(_leads_to(total, reached, node) for total in totals):
        return set()
    return {read for each in reached for read in each.all_input_nodes if read not in reached and read not in computed}


def _shape(node: fx.Node) -> list[int]:
    return [hint_of(size) for size in node.meta["val"].shape]


def _along_rows(user: fx.Node, shape: Sequence[int]) -> bool:
    """Whether it reduces the last dimensions alone, which one program of a kernel has together."""
    facts = facts_if_operator(user.target)
    if facts is None or not facts.pure:
        return False
    names = [argument.name for argument in user.target._schema.arguments]  # type: ignore[union-attr]
    at = names.index("dim") if "dim" in names else len(names)
    dims = user.kwargs.get("dim", user.args[at] if at < len(user.args) else None)
    if not isinstance(dims, (list, tuple)) or not all(type(dim) is int for dim in dims):
        return False
    along = {dim % len(shape) for dim in dims}
    return 0 < len(along) < len(shape) and along == {*range(len(shape) - len(along), len(shape))}


def _is_small(total: fx.Node, node: fx.Node) -> bool:
    """Whether it is no more than what sums over a part of the values give."""
    return 8 * bytes_of(total.meta.get("val")) <= bytes_of(node.meta["val"])


def _leads_to(total: fx.Node, targets: Collection[fx.Node], node: fx.Node) -> bool:
    """Whether one of the targets is computed from it and what else is small."""
    seen, waiting = {total}, [total]
    while waiting:
        for user in waiting.pop().users:
            if user in targets:
                return True
            if user not in seen and _is_small(user, node):
                seen.add(user)
                waiting.append(user)
    return False
