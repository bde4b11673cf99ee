"""`torch.nn.attention.flex_attention.flex_attention`: scores, what the program makes of each by its own functions, a softmax, a product.

The functions are called once, with all scores and all positions at a time, where each of their operations computes elements apart;
others break the graph, and torch's own runs.
"""

from __future__ import annotations

import math
import operator
import sys
import types
from collections.abc import Iterator
from typing import Any

import torch
from torch import fx

from capture._torch import safe_softmax
from capture.errors import Unsupported
from symshapes import hint_of

from .base import Args, Interpreter, Kwargs, Variable
from .constants import Constant
from .handlers import handles
from .objects import Object
from .tensors import Tensor

_MODULE = "torch.nn.attention.flex_attention"
_PARAMETERS = ("query", "key", "value", "score_mod", "block_mask", "scale", "enable_gqa")
_LEFT_TO_TORCH = ("return_lse", "kernel_options", "return_aux")
"""Arguments that are only understood where they say nothing."""

_ARITHMETIC = (
    *("add", "sub", "mul", "truediv", "true_divide", "div", "floordiv", "floor_divide", "mod", "remainder", "fmod"),
    *("neg", "pos", "pow", "square", "abs", "exp", "exp2", "expm1", "log", "log1p", "log2", "sqrt", "rsqrt", "tanh"),
    *("sigmoid", "sin", "cos", "relu", "sign", "floor", "ceil", "round", "trunc", "clamp", "clamp_min", "clamp_max"),
    *("minimum", "maximum", "reciprocal", "where", "masked_fill"),
)
_TESTS = (
    *("lt", "le", "gt", "ge", "eq", "ne", "and_", "or_", "xor", "invert", "isinf", "isnan"),
    *("logical_and", "logical_or", "logical_xor", "logical_not"),
    *("bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_not"),
)
_CASTS = ("to", "float", "half", "double", "bfloat16", "int", "long", "bool", "type")
ELEMENTWISE = frozenset((*_ARITHMETIC, *_TESTS, *_CASTS))
"""Functions of torch and of `operator`, and methods of tensors, that compute each element from those at its place."""

_CONSTANT = ("new_ones", "new_zeros", "new_full")


@handles(f"{_MODULE}.flex_attention")
def _flex_attention(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    given = dict(zip(_PARAMETERS, args, strict=False)) | kwargs
    if len(given) < len(args) + len(kwargs) or not {"query", "key", "value"} <= given.keys():
        raise Unsupported("flex_attention with these arguments")
    for name in _LEFT_TO_TORCH:
        stated = given.pop(name, None)
        if stated is not None and not _is(m, stated, None) and not _is(m, stated, False):
            raise Unsupported(f"flex_attention with {name}")
    query, key, value = (_factor(m, given.pop(name)) for name in ("query", "key", "value"))
    grouped = _is(m, given.pop("enable_gqa", Constant(False)), True)
    _check(query, key, value, grouped)
    scale = given.pop("scale", Constant(None))
    factor = _number(m, scale)
    if factor is None:
        width = query.fake.shape[-1]
        if type(width) is not int:
            raise Unsupported("flex_attention of a width that may change")
        factor = 1.0 / math.sqrt(width)
    score_mod, block_mask = (_given(m, given.pop(name, None)) for name in ("score_mod", "block_mask"))
    if given:
        raise Unsupported("flex_attention with these arguments")
    precise = torch.float64 if query.fake.dtype is torch.float64 else torch.float32
    places = _places(m, query, key)
    mask = None if block_mask is None else _mask(m, block_mask, query, key, places)
    if grouped:
        key, value = (_repeated(m, each, query.fake.shape[1] // each.fake.shape[1]) for each in (key, value))
    left, right = (_method(m, each, "to", precise) for each in (query, _method(m, key, "transpose", -2, -1)))
    scores = _call(m, operator.mul, _call(m, torch.matmul, left, right), factor)
    if score_mod is not None:
        scores = _elements(m, score_mod, [scores, *places], precise, "score_mod")
    if mask is not None:
        scores = _call(m, torch.where, mask, scores, -math.inf)
    weights = _call(m, safe_softmax, scores, -1)
    return _laid_out(m, _call(m, torch.matmul, _method(m, weights, "to", query.fake.dtype), value), query)


def _laid_out(m: Interpreter, out: Tensor, query: Tensor) -> Tensor:
    """The result with its rows in memory in the order of the queries', as torch lays it out."""
    steps = [hint_of(step) for step in query.fake.stride()[:3]]
    inner_first = sorted(range(3), key=steps.__getitem__)
    order = (*reversed(inner_first), 3)
    if order == (0, 1, 2, 3):
        return out
    back = (order.index(dim) for dim in range(4))
    result: Tensor = _method(m, _method(m, _method(m, out, "permute", *order), "contiguous"), "permute", *back)
    return result


def _is(m: Interpreter, value: Variable, wanted: Any) -> bool:
    found = value.realize(m)
    return isinstance(found, Constant) and found.value is wanted


def _given(m: Interpreter, value: Variable | None) -> Variable | None:
    return None if value is None or m.builder.is_none(value.realize(m)) else value.realize(m)


def _number(m: Interpreter, value: Variable) -> float | None:
    found = value.realize(m)
    if not isinstance(found, Constant) or type(found.value) not in (int, float, type(None)):
        raise Unsupported("flex_attention with a scale that may change")
    return None if found.value is None else float(found.value)


def _factor(m: Interpreter, value: Variable) -> Tensor:
    found = value.realize(m)
    if not isinstance(found, Tensor) or found.fake.dim() != 4 or found.fake.layout is not torch.strided:
        raise Unsupported("flex_attention of what is no tensor of four dimensions")
    return found


def _check(query: Tensor, key: Tensor, value: Tensor, grouped: bool) -> None:
    """Leave to torch what it refuses, and what it does in another way."""
    q, k, v = (each.fake for each in (query, key, value))
    same = {(each.dtype, each.device) for each in (q, k, v)}
    heads = (q.shape[1], k.shape[1])
    shared = grouped and all(type(count) is int for count in heads) and heads[1] > 0 and heads[0] % heads[1] == 0
    pairs = [(q.shape[0], k.shape[0]), (k.shape[0], v.shape[0]), (k.shape[1], v.shape[1])]
    pairs += [(q.shape[3], k.shape[3]), (k.shape[2], v.shape[2])]
    alike = all(_sure(one, other) for one, other in pairs) and (shared or _sure(*heads))
    if len(same) > 1 or not q.dtype.is_floating_point or not alike or q.dtype.itemsize < 2:
        raise Unsupported("flex_attention of tensors that do not fit each other")
    if any(torch.is_autocast_enabled(kind) for kind in {q.device.type, "cpu"}):
        raise Unsupported("flex_attention under autocast")


def _sure(one: Any, other: Any) -> bool:
    """Whether two sizes are known to be the same, without a new condition on them."""
    if type(one) is int and type(other) is int:
        return one == other
    return one is other or str(one) == str(other)


def _repeated(m: Interpreter, heads: Tensor, times: int) -> Tensor:
    """Each head several times, one after the other."""
    one = _method(m, heads, "unsqueeze", 2)
    return _method(m, _method(m, one, "expand", -1, -1, times, -1, -1), "flatten", 1, 2)


def _places(m: Interpreter, query: Tensor, key: Tensor) -> list[Variable]:
    """The positions of batches, heads, queries and keys, each along a dimension of the scores."""
    made: list[Variable] = []
    for dim, (of, its) in enumerate(((query, 0), (query, 1), (query, 2), (key, 2))):
        count = of.fake.shape[its]
        size: Variable = Constant(count) if type(count) is int else m.recorder.number(of, "size", [its], {}, count)
        line = _call(m, torch.arange, size, device=query.fake.device)
        shape = [1, 1, 1, 1]
        shape[dim] = -1
        made.append(_method(m, line, "view", *shape))
    return made


def _mask(m: Interpreter, block_mask: Variable, query: Tensor, key: Tensor, places: list[Variable]) -> Tensor:
    """Which scores count. Blocks only say again which ones might."""
    module = sys.modules.get(_MODULE)
    if not isinstance(block_mask, Object) or module is None or block_mask.cls is not module.BlockMask:
        raise Unsupported("flex_attention with a block mask of another class")
    lengths = [part.realize(m) for part in m.iteration.elements(block_mask.attribute(m, "seq_lengths"))]
    sizes = (query.fake.shape[2], key.fake.shape[2])
    known = [each.value if isinstance(each, Constant) else None for each in lengths]
    if any(type(size) is not int for size in sizes) or known != [*sizes]:
        raise Unsupported("flex_attention with a block mask of other lengths")
    blocks = block_mask.attribute(m, "kv_num_blocks").realize(m)
    if not isinstance(blocks, Tensor) or blocks.fake.device != query.fake.device:
        raise Unsupported("flex_attention with a block mask on another device")
    return _elements(m, block_mask.attribute(m, "mask_mod").realize(m), places, torch.bool, "mask_mod")


def _elements(m: Interpreter, function: Variable, args: list[Variable], dtype: torch.dtype, what: str) -> Tensor:
    """What the program's function gives for all elements."""
    apart = {value.node for arg in args if isinstance(value := arg.realize(m), Tensor)}
    before = next(iter(reversed(next(iter(apart)).graph.nodes)))
    found = m.calls.call(function, args, {}).realize(m)
    for node in _behind(before):
        if not _is_elementwise(node, apart):
            raise Unsupported(f"a {what} of flex_attention that does more than compute elements apart")
    if not isinstance(found, Tensor) or found.fake.dtype is not dtype or found.fake.dim() not in (0, 4):
        raise Unsupported(f"a {what} of flex_attention that gives no {dtype}")
    if found.fake.dim() == 4 and found.node not in apart:
        raise Unsupported(f"a {what} of flex_attention that gives a tensor of its own")
    return found


def _behind(node: fx.Node) -> Iterator[fx.Node]:
    while (node := node.next).op != "root":
        yield node


def _is_elementwise(node: fx.Node, apart: set[fx.Node]) -> bool:
    """Whether a call does for all elements what it does for each; what it makes of them joins `apart`.

    Those have four dimensions, along which they repeat or not. What else there is has none, and promotes as it would promote one.
    """
    reads = [read for read in node.all_input_nodes if read in apart]
    if "effect" in node.meta:
        return False
    if not reads:
        return True
    made = node.meta.get("val")
    if not isinstance(made, torch.Tensor) or made.device != reads[0].meta["val"].device:
        return False
    name = node.target if isinstance(node.target, str) else _named(node.target)
    if name in _CONSTANT:
        return made.dim() == 0
    if name == "getitem" and node.args[0] not in apart:
        alike = _reads_one(node, apart) and made.dim() == 4
    else:
        alike = (
            name in ELEMENTWISE and made.dim() == 4 and all(_fits(read, reads, apart) for read in node.all_input_nodes)
        )
    if alike:
        apart.add(node)
    return alike


def _named(function: Any) -> str:
    """The name of a function that is torch's or `operator`'s."""
    name = getattr(function, "__name__", "")
    known = (getattr(torch, name, None), getattr(operator, name, None), abs)
    return name if isinstance(function, types.BuiltinFunctionType) and function in known else ""


def _fits(read: fx.Node, elements: list[fx.Node], apart: set[fx.Node]) -> bool:
    value = read.meta.get("val")
    if read in apart:
        return True
    if not isinstance(value, torch.Tensor):
        return True
    if value.dim() != 0:
        return False
    kinds = {each.meta["val"].dtype for each in elements}
    single = torch.empty((), dtype=value.dtype)
    one, row = ({kind: torch.empty(size, dtype=kind) for kind in kinds} for size in ((), (1,)))
    return all(torch.result_type(row[kind], single) == torch.result_type(one[kind], single) for kind in kinds)


def _reads_one(node: fx.Node, apart: set[fx.Node]) -> bool:
    """Whether a subscript takes one element of a tensor for each."""
    table, index = node.args
    held = table.meta.get("val") if isinstance(table, fx.Node) else None
    parts = index if isinstance(index, tuple) else (index,)
    if not isinstance(held, torch.Tensor) or len(parts) != held.dim():
        return False
    return all(
        type(part) is int
        or (isinstance(part, fx.Node) and part in apart and part.meta["val"].dtype in (torch.int64, torch.int32))
        for part in parts
    )


def _call(m: Interpreter, function: Any, *args: Any, **kwargs: Any) -> Any:
    return m.recorder.record("call_function", function, *_variables(m, args, kwargs))


def _method(m: Interpreter, tensor: Any, name: str, *args: Any) -> Any:
    return m.recorder.record("call_method", name, *_variables(m, (tensor, *args), {}))


def _variables(
    m: Interpreter, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[list[Variable], dict[str, Variable]]:
    def variable(value: Any) -> Variable:
        return value if isinstance(value, Variable) else m.builder.from_python(value)

    return [variable(value) for value in args], {name: variable(value) for name, value in kwargs.items()}
