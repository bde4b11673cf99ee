"""What runs in place of attention written out: torch's one-kernel attention, where torch has a kernel for it.

In: a captured graph, and who decides about each attention. Out: by the last product's node, a `Fused`, and the calls it makes needless.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, fx
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

from aotgrad.attention.blind import felt, queries, undefined
from aotgrad.attention.calls import between, live_nodes, reading, shape_of, value_of
from aotgrad.attention.constants import Constants, storages_of
from aotgrad.attention.masks import Mask, hides, mask_of
from aotgrad.attention.match import MUST_HIDE, Factor, Written, written_at
from symshapes import FakeMode, FakeTensor, dataclass, hint_of, holds_all_of, same_size, taking_symbols

Fetch = Callable[[fx.Node], Tensor]
"""The tensor that a node of the graph stands for."""


@dataclass(frozen=True)
class Attention:
    """An attention that a program writes out: what a compiler is asked about."""

    device: torch.device
    dtype: torch.dtype
    """Of queries, keys, values and the result."""
    query: tuple[Any, ...]
    key: tuple[Any, ...]
    """The sizes of queries and keys as matrices, of 3 or 4 dimensions: (..., rows, width) and (..., keys, width)."""
    dropout: float
    """The probability with which a weight is dropped."""
    masked: bool
    """Whether anything but a causal mask is added to the scores."""
    grad: bool
    """Whether it is differentiated."""


@dataclass(frozen=True)
class Fused:
    """Calls torch's attention for what a graph writes out; `inside` are the calls that it takes the place of, besides the last."""

    written: Written
    mask: Mask
    repeated: bool
    """Whether several heads of queries share one of keys and values, which are read as they were before they were repeated."""
    laid_out: bool
    """Whether the result is laid out as the product's would be. If not, all that follows is a copy in another order."""

    apart: bool
    """Whether the program writes over the result, which the backward reads: it writes over a copy."""

    @property
    def inside(self) -> frozenset[fx.Node]:
        """The calls that it makes needless."""
        return self.written.inside

    def __call__(self, fetch: Fetch, size: Callable[[Any], Any] = lambda size: size) -> Tensor:
        """The value of the last product. `size`: what a size of the graph's values is here."""
        written = self.written
        query, key, value = (
            self._factor(factor, fetch, size) for factor in (written.query, written.key, written.value)
        )
        options: dict[str, Any] = {"dropout_p": written.dropout, "scale": written.scale}
        if self.repeated:
            options["enable_gqa"] = True
        attend = functools.partial(
            taking_symbols(F.scaled_dot_product_attention, options.values()), is_causal=self.mask.causal, **options
        )
        out = self._masked(attend, fetch, query, key, value) if self.mask.terms else attend(query, key, value)
        shape = shape_of(written.node)
        if written.result is not None:
            out = out.permute(written.result)
        elif out.dim() != len(shape):
            out = out.reshape([*map(size, shape)])
        out = out.contiguous() if self.laid_out else out
        return out.clone() if self.apart else out

    def _masked(self, attend: Callable[..., Tensor], fetch: Fetch, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        """Attention with something added to the scores."""
        mask, dtype = self.mask, query.dtype
        zero, low = (torch.full((), number, dtype=dtype, device=query.device) for number in (0.0, -math.inf))
        parts: list[Tensor] = []
        hidden, blind, gone = None, None, None
        for term in mask.hidden:
            found = hides(term, self._spread(fetch(term.node)))
            hidden = found if hidden is None else hidden | found
        if hidden is not None:
            if mask.blind:
                blind = hidden.all(-1, keepdim=True)
                hidden = hidden & blind.logical_not()
            parts.append(torch.where(hidden, low, zero))
        for term in mask.added:
            part = self._spread(fetch(term.node))
            part = (
                part if torch.is_grad_enabled() else part.detach()
            )  # torch asks whether it requires grad all the same
            if mask.lost:
                highest = part.amax(-1, keepdim=True)
                gone, blind = highest == low, highest <= MUST_HIDE * torch.finfo(dtype).min
                part = torch.where(gone, zero, part - torch.where(blind, highest, zero))
            elif blind is not None:  # lost in the low numbers
                part = torch.where(blind, zero, part)
            parts.append(part)
        added = functools.reduce(torch.add, parts)
        # Kernels read rows of a mask.
        attend = functools.partial(attend, attn_mask=added if same_size(added.stride(-1), 1) else added.contiguous())
        if blind is None:
            return attend(query, key, value)
        if self.written.safe and (gone is not None or mask.hidden[0].value == -math.inf):
            gone = blind if gone is None else gone
            return torch.where(gone, zero, attend(queries(query, blind, True, False), key, value))
        if mask.hidden and mask.hidden[0].value == -math.inf:
            return undefined(attend(query, key, value), value, blind, mask.hidden[0].replaces)
        replaced = bool(mask.hidden) and mask.hidden[0].replaces
        grad = torch.is_grad_enabled() and any(one.requires_grad for one in (query, key, value))
        out = attend(queries(query, blind, replaced, grad), key, value)
        if gone is not None:
            return undefined(out, value, gone, replaced)
        return out if replaced or not grad else felt(out, query, key, value, blind, self.written.scale)

    def _spread(self, mask: Tensor) -> Tensor:
        """A mask as one of four dimensions."""
        dims = 3 if len(self._lead) == 1 else 4
        mask = mask[(None,) * (dims - mask.dim())] if mask.dim() < dims else mask
        return mask if dims == 4 else mask.unsqueeze(1)

    @property
    def _lead(self) -> tuple[Any, ...]:
        """The sizes before the matrices': of the scores where something is added to them, else of the queries."""
        levels = [term.level[:-2] for term in self.written.terms if len(term.level) == 4]
        return levels[0] if levels else self.written.query.shape[:-2]

    def _factor(self, factor: Factor, fetch: Fetch, size: Callable[[Any], Any]) -> Tensor:
        node = factor.node
        if self.repeated and factor is not self.written.query:
            found = _before_repeating(factor)
            assert found is not None
            return fetch(found)
        tensor = fetch(node)
        if factor.order is not None:
            tensor = tensor.permute(factor.order)
        if tensor.dim() == 4:
            return tensor
        return (
            tensor.reshape(*map(size, self._lead), *tensor.shape[-2:]) if len(self._lead) == 2 else tensor.unsqueeze(1)
        )


def fused_attentions(graph: fx.Graph, chosen: Callable[[Attention], bool]) -> Mapping[fx.Node, Fused]:
    """The attention in a captured graph that `chosen` says yes to, and that torch has one kernel for: by its last product."""
    softmax = [node for node in graph.nodes if reading(node)[0] in ("softmax", "safe softmax")]
    if not softmax:
        return {}
    constants, live = Constants(graph), live_nodes(graph)
    found: dict[fx.Node, Fused] = {}
    for node in graph.nodes:
        if node.op.startswith("call_") and node in live and node > softmax[0]:
            written = written_at(node, constants, live)
            fused = None if written is None else _fused(written, chosen, constants, live)
            if fused is not None:
                found[node] = fused
    return found


def _fused(
    written: Written, chosen: Callable[[Attention], bool], constants: Constants, live: set[fx.Node]
) -> Fused | None:
    """What runs in its place, if anything does."""
    values = [value_of(node) for node in (written.query.node, written.key.node, written.value.node, written.node)]
    if not all(isinstance(value, FakeTensor) for value in values) or not _fit(written):
        return None
    query = values[0]
    if any((value.dtype, value.device) != (query.dtype, query.device) for value in values):
        return None
    if any(value_of(term.node).device != query.device for term in written.terms):
        return None
    if not all(holds_all_of(value_of(node).dtype, query.dtype) for node in written.inside):
        return None  # the program wants numbers rounded on the way
    grad = values[3].requires_grad
    if grad and torch.are_deterministic_algorithms_enabled():
        return None  # backwards of kernels add in an order that varies
    if grad and _are_written_later(written):
        return None
    mask = mask_of(written.terms, query.dtype, grad, constants)
    if mask is None:
        return None
    shapes = written.query.shape, written.key.shape
    attention = Attention(query.device, query.dtype, *shapes, written.dropout, bool(mask.terms), grad)
    if not chosen(attention):
        return None
    keys, held = (_before_repeating(factor) for factor in (written.key, written.value))
    shared = keys is not None and held is not None and same_size(shape_of(keys)[1], shape_of(held)[1])
    shared = shared and not any(constants.is_written(one) for one in (keys, held) if one is not None)
    for repeated in (True, False) if shared and not mask.blind else (False,):
        for laid_out in (False, True):
            copies = () if laid_out else _copies_behind(written.node, live) or ()
            apart = grad and any(constants.is_written(one) for one in (written.node, *copies))
            fused = Fused(written, mask, repeated, laid_out, apart)
            if _runs_one_kernel(fused, live):
                return fused
    return None


def _fit(written: Written) -> bool:
    """Whether the factors are batches of the same matrices, so that nothing is repeated, and a mask's level tells their heads."""
    query, key, value = written.query.shape, written.key.shape, written.value.shape
    sizes = [(query[-1], key[-1]), (key[-2], value[-2])]
    sizes += [pair for other in (key, value) for pair in zip(query[:-2], other[:-2], strict=len(query) == len(other))]
    levels = [term.level for term in written.terms if len(term.level) == 4]
    if len(query) != len(key) or len(query) != len(value):
        return False
    if len(query) == 4 and any(len(term.level) != 4 for term in written.terms):
        return False
    sizes += [pair for level in levels[1:] for pair in zip(levels[0], level, strict=True)]
    if len(levels) not in (0, len(written.terms)) or (levels and len(query) == 3 and written.query.order is not None):
        return False
    if levels and len(query) == 4:
        sizes += zip(levels[0][:-2], query[:-2], strict=True)
    return all(same_size(one, other) for one, other in sizes)


def _are_written_later(written: Written) -> bool:
    """Whether the program writes over what goes in, once it has the result: the kernel's backward reads all of it, another's less."""
    leaves = [factor.node for factor in (written.query, written.key, written.value)]
    leaves += [term.node for term in written.terms]
    read = {value.storage_key for leaf in leaves if isinstance(value := value_of(leaf), FakeTensor)}
    later = between(written.node, written.node)  # up to the end
    return any("effect" in node.meta and not read.isdisjoint(storages_of(node)) for node in later)


def _before_repeating(factor: Factor) -> fx.Node | None:
    """Keys or values (batch, heads, keys, width) of which each head was repeated for several of queries, as they were before."""
    node, order = factor.node, factor.order
    if order is not None:  # keys across
        kind, arguments = reading(node)
        dims = {arguments.get("dim0"), arguments.get("dim1")}
        if order != (0, 1, 3, 2) or kind != "transpose" or dims not in ({2, 3}, {-1, -2}):
            return None
        node = arguments["input"]
    kind, arguments = reading(node)
    if kind != "view" or node.target not in ("reshape", torch.reshape, "flatten", torch.flatten):
        return None
    wide = arguments["input"]
    kind, arguments = reading(wide)
    if kind != "expand":
        return None
    one = arguments["input"]
    kind, arguments = reading(one)
    before = arguments.get("input")
    whole, narrow, shape, few = shape_of(node), shape_of(wide), shape_of(one), shape_of(before)
    if kind not in ("subscript", "unsqueeze") or [*map(len, (whole, narrow, shape, few))] != [4, 5, 5, 4]:
        return None
    if kind == "unsqueeze" and arguments.get("dim") not in (2, -3):
        return None
    everything = slice(None)
    index = arguments.get("index")
    if kind == "subscript" and index != (everything, everything, None, everything, everything):
        return None
    sizes = [*zip(few, (*shape[:2], *shape[3:]), strict=True), *zip(few[2:], whole[2:], strict=True)]
    sizes += [(few[0], whole[0]), (narrow[1], few[1])]
    return before if all(same_size(a, b) for a, b in sizes) else None


class _Kernels(TorchDispatchMode):
    """Notes whether one kernel computes attention."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.seen = False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.seen = self.seen or "_scaled_dot_product" in func.name()
        return func(*args, **(kwargs or {}))


def _runs_one_kernel(fused: Fused, live: set[fx.Node]) -> bool:
    """Whether torch has one kernel for it with tensors of the sizes met, and the rest of the graph can take what it gives."""
    last = fused.written.node
    copies = [] if fused.laid_out else _copies_behind(last, live)
    if copies is None:
        return False
    kernels, made = _Kernels(), dict[fx.Node, Tensor]()

    def fetch(node: fx.Node) -> Tensor:
        if node not in made:
            made[node] = _of_hints(value_of(node))
        return made[node]

    def argument(node: fx.Node) -> Any:
        return made[node] if node in made else hint_of(value_of(node))

    try:
        with _disable_current_modes(), FakeMode(), torch.set_grad_enabled(value_of(last).requires_grad), kernels:
            made[last] = fused(fetch, hint_of)
            for call in copies:
                args, kwargs = fx.node.map_arg((call.args, call.kwargs), argument)
                run = getattr(args[0], call.target) if isinstance(call.target, str) else call.target
                made[call] = run(*(args[1:] if isinstance(call.target, str) else args), **kwargs)
    except (RuntimeError, ValueError):  # torch refuses it
        return False
    checked = copies[-1] if copies else last
    return kernels.seen and _alike(made[checked], value_of(checked))


def _alike(made: Tensor, wanted: Tensor) -> bool:
    sizes, strides = ([hint_of(n) for n in numbers] for numbers in (wanted.shape, wanted.stride()))
    steps = zip(made.shape, made.stride(), strides, strict=True)
    return [*made.shape] == sizes and all(size == 1 or mine == step for size, mine, step in steps)


def _copies_behind(node: fx.Node, live: set[fx.Node]) -> list[fx.Node] | None:
    """The calls that put the result in another order and lay it out anew, if nobody else reads it."""
    calls: list[fx.Node] = []
    while True:
        users = [user for user in node.users if user in live]
        if len(users) != 1 or not users[0].args or users[0].args[0] is not node or "effect" in users[0].meta:
            return None
        (node,) = users
        calls.append(node)
        kind, arguments = reading(node)
        if node.target == "contiguous" or (kind == "view" and node.target not in ("view", "unflatten")):
            return calls if len(arguments) == 1 else None
        if kind not in ("transpose", "permute"):
            return None


def _of_hints(tensor: Tensor) -> Tensor:
    sizes, strides = ([hint_of(n) for n in numbers] for numbers in (tensor.shape, tensor.stride()))
    made = torch.empty_strided(sizes, strides, dtype=tensor.dtype, device=tensor.device)
    return made.requires_grad_(tensor.requires_grad)
