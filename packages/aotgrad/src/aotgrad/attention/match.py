"""Attention written out in a graph: `written_at` says whether a product ends one, and what of.

In: a node of a captured graph. Out: `Written`: the factors, the scale, what is added to the scores or hides some, and the calls between.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import field, replace
from typing import Any, Literal

import torch
from torch import fx

from aotgrad.attention.calls import IN_PLACE, between, last_write, reading, shape_of, value_of
from aotgrad.attention.constants import Constants, storages_of
from symshapes import FakeTensor, dataclass, same_size, same_sizes

MUST_HIDE = 0.5
"""Of the lowest number of a dtype: what is as low as this part of it has no weight beside any score that is not."""


@dataclass(frozen=True, eq=False)
class Term:
    """What changes scores: "add": `node` is added to them. "hide": where `node` (of truth values) is true, or with `inverted` false, they
    are `value`, or without `replaces` that is added to them; or `node` has such a number there, and else zeros.

    `level`: the scores' sizes there, which may be symbolic and so have no hash. `node` broadcasts to it.
    """

    kind: Literal["add", "hide"]
    node: fx.Node
    level: tuple[Any, ...]
    value: float = -math.inf
    inverted: bool = False
    replaces: bool = True


@dataclass(frozen=True)
class Factor:
    """A factor of a product as a batch of matrices: the node, and the order of its dimensions in that (None: its own)."""

    node: fx.Node
    order: tuple[int, ...] | None = None

    @property
    def shape(self) -> tuple[Any, ...]:
        """The sizes in that order."""
        shape = shape_of(self.node)
        return shape if self.order is None else tuple(shape[dim] for dim in self.order)

    def transposed(self) -> Factor:
        """The same matrices with rows for columns."""
        order = self.order or tuple(range(len(shape_of(self.node))))
        return Factor(self.node, (*order[:-2], order[-1], order[-2]))


@dataclass(frozen=True)
class Product:
    """A batch of products of matrices: `left` (..., rows, inner), `right` (..., inner, columns).

    `order`: that of the dimensions of (..., rows, columns) in the node's result (None: as they are).
    """

    left: Factor
    right: Factor
    order: tuple[int, ...] | None = None
    scale: float = 1.0
    added: fx.Node | None = None


@dataclass(frozen=True)
class Written:
    """softmax(scale query keyᵀ, changed by `terms`) value, with some of the weights dropped.

    `key` is (..., keys, width) as query and value are. `inside`: the calls that are there only for it. `result`: the order of dimensions
    of (..., rows, width) in the node's value (None: as they are).
    """

    node: fx.Node
    query: Factor
    key: Factor
    value: Factor
    scale: float
    terms: tuple[Term, ...]
    dropout: float
    inside: frozenset[fx.Node]
    result: tuple[int, ...] | None
    safe: bool
    """Whether rows without scores give zeros, and are no NaN."""


@dataclass(frozen=True)
class _Scores:
    """What was found on the way from the softmax to the scores' product."""

    scale: float = 1.0
    terms: tuple[Term, ...] = ()
    inside: tuple[fx.Node, ...] = ()
    product: Product | None = field(default=None)


def written_at(node: fx.Node, constants: Constants, live: set[fx.Node]) -> Written | None:
    """The attention that `node` is the last product of; None if it is none, or somebody else reads or changes what it is made of."""
    product = product_of(node, constants)
    if product is None or product.added is not None or product.scale != 1.0 or product.left.order is not None:
        return None
    weights: Any = product.left.node
    dropout, inside = 0.0, list[fx.Node]()
    while True:
        kind, arguments = reading(weights)
        if kind in ("softmax", "safe softmax"):
            break
        inside.append(weights)
        if kind == "drop":
            chance = constants.number(arguments.get("p", 0.5))
            training = arguments.get("training", arguments.get("train", True))
            if (
                dropout
                or chance is None
                or type(training) is not bool
                or not 0 <= chance < 1
                or arguments.get("inplace")
            ):
                return None
            dropout = chance if training else 0.0
        elif not _passes(kind, arguments, weights):
            return None
        weights = arguments["input"]
    inside.append(weights)
    if not _is_over_columns(weights, arguments):
        return None
    found = _scores(arguments["input"], weights, _Scores(), constants)
    if found is None or found.product is None or found.product.order is not None:
        return None
    scores = found.product
    inner = frozenset((*inside, *found.inside))
    written = Written(
        node,
        _narrow(scores.left, constants),
        _narrow(scores.right, constants).transposed(),
        product.right,
        found.scale * scores.scale,
        found.terms,
        dropout,
        inner,
        product.order,
        kind == "safe softmax",
    )
    return written if _is_sound(written, live) else None


def _narrow(factor: Factor, constants: Constants) -> Factor:
    """A factor of the scores' product as it was before it was cast to a wider dtype: products of such numbers are exact in that."""
    kind, arguments = reading(factor.node)
    value, given = value_of(factor.node), value_of(arguments.get("input"))
    if kind != "cast" or not isinstance(given, torch.Tensor) or given.dtype not in (torch.float16, torch.bfloat16):
        return factor
    wide = value.dtype is torch.float32 and value.device == given.device and same_sizes(value, given)
    return replace(factor, node=arguments["input"]) if wide and not constants.is_written(arguments["input"]) else factor


def product_of(node: Any, constants: Constants) -> Product | None:
    """The product that a node computes, if it does."""
    kind, arguments = reading(node)
    if kind == "einsum":
        return _einsum(arguments)
    names = {"product": ("input", ("other", "mat2")), "added product": ("batch1", ("batch2",))}.get(kind)
    if names is None:
        return None
    left = arguments.get(names[0])
    right = next((arguments[name] for name in names[1] if name in arguments), None)
    if not isinstance(left, fx.Node) or not isinstance(right, fx.Node):
        return None
    scale, added = 1.0, None
    if kind == "added product":
        factor, beta = (constants.number(arguments.get(name, 1)) for name in ("alpha", "beta"))
        if factor is None or beta not in (0.0, 1.0):
            return None
        scale, added = factor, arguments["input"] if beta else None
    shapes = shape_of(left), shape_of(right)
    ranks = {len(shape) for shape in shapes}
    return Product(Factor(left), Factor(right), None, scale, added) if ranks in ({3}, {4}) else None


def _einsum(arguments: Any) -> Product | None:
    equation, first, second = (arguments.get(name) for name in ("equation", "first", "second"))
    if not isinstance(equation, str) or not isinstance(first, fx.Node) or not isinstance(second, fx.Node):
        return None
    sides = equation.replace(" ", "").split("->")
    terms = [*sides[0].split(","), *sides[1:]]
    if len(terms) != 3 or not all(term.isalpha() and len(set(term)) == len(term) in (3, 4) for term in terms):
        return None
    left, right, out = terms
    batch = [letter for letter in out if letter in left and letter in right]
    inner = [letter for letter in left if letter in right and letter not in out]
    rows = [letter for letter in left if letter not in right and letter in out]
    columns = [letter for letter in right if letter not in left and letter in out]
    if not len(inner) == len(rows) == len(columns) == 1 or len(batch) != len(out) - 2:
        return None
    if {*left} != {*batch, *rows, *inner} or {*right} != {*batch, *inner, *columns}:
        return None
    for term, node in ((left, first), (right, second)):
        if len(shape_of(node)) != len(term):
            return None

    def order(letters: list[str], term: str) -> tuple[int, ...] | None:
        found = tuple(term.index(letter) for letter in letters)
        return None if found == tuple(range(len(term))) else found

    natural = [*batch, *rows, *columns]
    return Product(
        Factor(first, order([*batch, *rows, *inner], left)),
        Factor(second, order([*batch, *inner, *columns], right)),
        order(list(out), "".join(natural)),
    )


def _scores(node: Any, reader: fx.Node, found: _Scores, constants: Constants) -> _Scores | None:
    """Follow scores from behind to the product that they come from: what `reader` reads as `node`."""
    value = value_of(node)
    if not isinstance(value, torch.Tensor) or not value.dtype.is_floating_point or value.dim() not in (3, 4):
        return None
    write = last_write(node, reader)
    if write is not None:
        node = write
    found = replace(found, inside=(*found.inside, node))
    product = product_of(node, constants)
    if product is not None:
        if product.added is not None:
            if found.scale != 1.0:
                return None
            found = replace(found, terms=(*found.terms, Term("add", product.added, tuple(value.shape))))
        return replace(found, product=product)
    kind, arguments = reading(node)
    if kind in ("multiply", "divide"):
        return _scaled(kind, arguments, node, found, constants)
    if kind in ("add", "fill", "choose"):
        # What lies between this and the softmax must not scale it.
        return None if found.scale != 1.0 else _changed(kind, arguments, node, found, constants)
    return _scores(arguments["input"], node, found, constants) if _passes(kind, arguments, node) else None


def _scaled(kind: str, arguments: Any, node: fx.Node, found: _Scores, constants: Constants) -> _Scores | None:
    pairs = [(arguments.get("input"), arguments.get("other"))]
    if kind == "multiply" and node.target not in IN_PLACE:
        pairs.append((arguments.get("other"), arguments.get("input")))
    for scores, factor in pairs:
        number = constants.number(factor)
        if number is not None and isinstance(scores, fx.Node) and 0 < number < math.inf and _same(scores, node):
            scale = found.scale * number if kind == "multiply" else found.scale / number
            return _scores(scores, node, replace(found, scale=scale), constants)
    return None


def _changed(kind: str, arguments: Any, node: fx.Node, found: _Scores, constants: Constants) -> _Scores | None:
    for scores, term in _terms(kind, arguments, node, constants):
        if isinstance(scores, fx.Node) and _same(scores, node):
            rest = _scores(scores, node, replace(found, terms=(*found.terms, term)), constants)
            if rest is not None:
                return rest
    return None


def _terms(kind: str, arguments: Any, node: fx.Node, constants: Constants) -> Iterator[tuple[Any, Term]]:
    """Each way to read a call as a change of scores: these, and the change."""
    level = shape_of(node)
    if kind == "add":
        if arguments.get("alpha", 1) == 1:
            ways = [("input", "other")] if node.target in IN_PLACE else [("input", "other"), ("other", "input")]
            for scores, added in ways:
                if isinstance(arguments.get(added), fx.Node):
                    yield arguments.get(scores), Term("add", arguments[added], level)
        return
    name = "mask" if kind == "fill" else "condition"
    condition = arguments.get(name)
    mask = value_of(condition)
    if not isinstance(mask, torch.Tensor) or mask.dtype is not torch.bool or not isinstance(condition, fx.Node):
        return
    fills = [("input", arguments.get("value"), False)]
    if kind == "choose":
        fills = [("input", arguments.get("other"), True), ("other", arguments.get("input"), False)]
    for scores_name, hidden, inverted in fills:
        scores, number = arguments.get(scores_name), constants.number(hidden)
        value = value_of(scores)
        if number is not None and isinstance(value, torch.Tensor) and value.dtype.is_floating_point:
            # A number lower than the dtype holds is its -inf.
            least = float(torch.tensor(number, dtype=torch.float64).to(value.dtype))
            if least <= MUST_HIDE * torch.finfo(value.dtype).min:
                yield scores, Term("hide", condition, level, least, inverted)


def _passes(kind: str, arguments: Any, node: fx.Node) -> bool:
    """Whether a call gives the values of its input: in another dtype, or its matrices in a batch of other dimensions."""
    if kind not in ("cast", "same", "view"):
        return False
    value, given = value_of(node), value_of(arguments.get("input"))
    if not isinstance(value, torch.Tensor) or not isinstance(given, torch.Tensor):
        return False
    if not value.dtype.is_floating_point or value.device != given.device or min(value.dim(), given.dim()) < 3:
        return False
    if kind != "view":
        return same_sizes(value, given)
    return value.dtype is given.dtype and all(
        same_size(one, other) for one, other in zip(value.shape[-2:], given.shape[-2:], strict=True)
    )


def _is_over_columns(node: fx.Node, arguments: Any) -> bool:
    return arguments.get("dim") in (-1, len(shape_of(node)) - 1) and type(arguments["dim"]) is int


def _same(one: fx.Node, other: fx.Node) -> bool:
    first, second = value_of(one), value_of(other)
    return (
        isinstance(first, torch.Tensor)
        and isinstance(second, torch.Tensor)
        and same_sizes(first, second)
        and first.device == second.device
    )


def _is_sound(written: Written, live: set[fx.Node]) -> bool:
    """Whether nobody else reads what lies inside, and what goes in is at its end what it was when it was read."""
    inside = written.inside | {written.node}
    for node in written.inside:
        if any(user in live and user not in inside for user in node.users):
            return False
    leaves = [factor.node for factor in (written.query, written.key, written.value)]
    leaves += [term.node for term in written.terms]
    if any(leaf in written.inside for leaf in leaves):
        return False
    read = {value.storage_key for leaf in leaves if isinstance(value := value_of(leaf), FakeTensor)}
    first = min(written.inside)
    for node in between(first, written.node):
        if node in inside or node not in live:
            continue
        if node.meta.get("effect", "write") != "write" or node.op == "call_module" or value_of(node) is None:
            return False  # grad mode, autocast: not the same for all of it, perhaps
        if "effect" in node.meta and not read.isdisjoint(storages_of(node)):
            return False
    return True
