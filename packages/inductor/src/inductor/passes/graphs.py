"""Passes over ATen graphs: how the rows of `graph_rows` are applied, in one walk.

Flows in: a functional graph with fake values in `meta["val"]`. Flows out: the same graph where no row applies, else a rewritten
copy. A node is looked at only by the rows whose patterns begin with its target.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import fx

from inductor.passes.patterns import Call, GraphMatch, computes, is_static, match_call
from symshapes import dataclass, facts_if_operator, facts_of, same_size, same_sizes


@dataclass(frozen=True)
class GraphPass:
    """One rewrite of calls of an ATen graph.

    It is exact: the results have the same bits. What takes a call's place has the same sizes, strides, dtype and device, else
    the graph stays as it is there: whatever reads it was traced with those. It stays, too, where a result of the graph would come
    to share memory with what another call made or with an input.
    """

    name: str
    """For `Options.disabled_passes`, and for counting; no other pass has it."""
    why: str
    """What makes it right, and what it is good for."""
    pattern: Call
    rewrite: Callable[[GraphMatch], fx.Node | None]
    """What takes the call's place: a node of the match, or one made by `GraphMatch.call`. None: nothing."""
    when: Callable[[GraphMatch], bool] | None = None
    """What else has to hold of a match."""


def rewrite_graph(graph: fx.Graph, passes: Iterable[GraphPass]) -> tuple[fx.Graph, Counter[str]]:
    """The graph with the passes applied, in their order at each node, and how often each did.

    The graph given is left as it is. Calls that act (write, draw random numbers) are neither rewritten nor taken away, and what
    another node still reads stays.
    """
    by_target: dict[Any, list[GraphPass]] = {}
    for one in passes:
        for target in filter(computes, one.pattern.targets):
            by_target.setdefault(target, []).append(one)
    counts: Counter[str] = Counter()
    if _any_match(graph, by_target):
        graph = copied(graph)
        for node in graph.nodes:
            if node.target in by_target:
                _rewrite(node, by_target, counts)
    return graph, counts


def _any_match(graph: fx.Graph, by_target: dict[Any, list[GraphPass]]) -> bool:
    for node in graph.nodes:
        for one in by_target.get(node.target, ()):
            if _match(one, node) is not None:
                return True
    return False


def _match(one: GraphPass, node: fx.Node) -> GraphMatch | None:
    match = match_call(one.pattern, node)
    return match if match is not None and (one.when is None or one.when(match)) else None


def _rewrite(node: fx.Node, by_target: dict[Any, list[GraphPass]], counts: Counter[str]) -> None:
    """Put into the node's place what the first pass that applies makes of it, and so on with what it made."""
    for one in by_target.get(node.target, ()):
        match = _match(one, node)
        made = None if match is None else one.rewrite(match)
        if match is None or made is None or not _takes_the_place(made, match):
            continue
        counts[one.name] += 1
        node.replace_all_uses_with(made)
        remove_unread(node)
        for new in match.made:
            _rewrite(new, by_target, counts)
        return


def _takes_the_place(made: fx.Node, match: GraphMatch) -> bool:
    """Whether the values are alike, and memory that is a result's own stays its own. If not, the calls made for it are erased."""
    known = len(match.made) < 2 or is_static(match.value)
    shares = made not in match.made and not facts_of(match.node.target).aliases and reaches_output(match.node)
    if known and not shares and _alike(made.meta["val"], match.value, of_new=made in match.made):
        if made in match.made:
            made.meta["val"] = match.value
        return True
    for new in reversed(match.made):
        match.node.graph.erase_node(new)
    return False


def _alike(made: Any, wanted: Any, of_new: bool) -> bool:
    if isinstance(wanted, tuple | list):
        return (
            isinstance(made, tuple | list)
            and len(made) == len(wanted)
            and all(_alike(a, b, of_new) for a, b in zip(made, wanted, strict=True))
        )
    if not isinstance(wanted, torch.Tensor) or not isinstance(made, torch.Tensor):
        return False
    return same_tensor_metadata(made, wanted, strict=not of_new)


def same_tensor_metadata(a: torch.Tensor, b: torch.Tensor, *, strict: bool = True) -> bool:
    """Whether nothing but their elements can tell two tensors apart; without `strict`, the strides of dimensions of size 1 may."""
    if not same_sizes(a, b) or a.layout is not torch.strided:
        return False
    if (a.dtype, a.device, a.layout, a.is_conj(), a.is_neg()) != (b.dtype, b.device, b.layout, b.is_conj(), b.is_neg()):
        return False
    strides = zip(a.stride(), b.stride(), a.shape, strict=True)
    return all(same_size(mine, other) for mine, other, size in strides if strict or not same_size(size, 1))


def reaches_output(node: fx.Node) -> bool:
    """Whether the value, or a view of it, is a result of the graph, where its memory has to be its own."""
    todo = [node]
    while todo:
        for user in todo.pop().users:
            if user.op == "output":
                return True
            facts = facts_if_operator(user.target)
            if facts is None or facts.aliases:
                todo.append(user)
    return False


def remove_unread(*nodes: fx.Node) -> None:
    """Erase calls that nobody reads, and those of their arguments that were there only for them."""
    todo, erased = [*nodes], set[fx.Node]()
    while todo:
        gone = todo.pop()
        facts = facts_if_operator(gone.target)
        if gone.users or gone in erased or facts is None or facts.acts:
            continue
        erased.add(gone)
        todo.extend(gone.all_input_nodes)
        gone.graph.erase_node(gone)


def copied(graph: fx.Graph) -> fx.Graph:
    """A copy with the same names; a good deal faster than torch's, which looks through all arguments for what can't be there."""
    copy = fx.Graph()
    places: dict[fx.Node, fx.Node] = {}
    for node in graph.nodes:
        made = copy.create_node(node.op, node.target, (), {}, node.name)
        assert made.name == node.name, "a graph gave out its names in another order"
        made.args = fx.node.map_arg(node.args, places.__getitem__)
        if node.kwargs:
            made.kwargs = fx.node.map_arg(node.kwargs, places.__getitem__)
        made.meta = dict(node.meta)
        places[node] = made
    return copy
