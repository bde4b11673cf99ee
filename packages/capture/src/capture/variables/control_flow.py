"""`torch.cond`, `while_loop`, `scan`, `map`, `associative_scan`: branches and bodies of loops are evaluated into graphs of their own.

What eager refuses, or means otherwise, is not captured: then eager's own runs, with its own errors. Of scans, torch's own
functions are evaluated, which look at the arguments and lay them out, down to the operation.
"""

from __future__ import annotations

import torch
from torch.utils._pytree import tree_flatten, tree_unflatten

from capture.errors import Unsupported

from .base import Args, Interpreter, Kwargs, Variable
from .constants import Constant
from .functions import Function
from .handlers import handles
from .mappings import Dict
from .numbers import Symbolic
from .partials import Partial
from .sequences import List, Tuple
from .tensors import Tensor


@handles("torch._higher_order_ops.cond.cond")
def _cond(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    given = dict(zip(("pred", "true_fn", "false_fn", "operands"), args, strict=False)) | kwargs
    if len(given) < len(args) + len(kwargs) or not {"pred", "true_fn", "false_fn"} <= given.keys():
        raise Unsupported("torch.cond with these arguments")
    operands = m.iteration.elements(given["operands"]) if "operands" in given else []
    condition = given["pred"].realize(m)
    if isinstance(condition, (Constant, Symbolic)):
        # Of a number, eager runs one function.
        return m.calls.call(given["true_fn" if m.operators.truth(condition) else "false_fn"], operands, {})
    if not isinstance(condition, Tensor) or condition.fake.dtype is not torch.bool or condition.fake.numel() != 1:
        raise Unsupported("torch.cond of what is no tensor of one bool")
    tensors = [tensor for value in operands for tensor in _tensors(m, value)]
    branches = [lambda name=name: m.calls.call(given[name], list(operands), {}) for name in ("true_fn", "false_fn")]
    return m.subgraphs.conditional(condition, branches, tensors)


@handles("torch._higher_order_ops.while_loop.while_loop")
def _while_loop(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    given = dict(zip(("cond_fn", "body_fn", "carried_inputs"), args, strict=False)) | kwargs
    if len(given) != 3 or len(args) > 3:
        raise Unsupported("while_loop with these arguments")
    carried = [value.realize(m) for value in m.iteration.elements(given["carried_inputs"])]
    if not carried or not all(isinstance(value, Tensor) for value in carried):
        raise Unsupported("while_loop of more than tensors")

    return m.subgraphs.loop(
        lambda values: m.calls.call(given["cond_fn"], values, {}),
        lambda values: m.calls.call(given["body_fn"], values, {}),
        carried,
    )


def _tensors(m: Interpreter, value: Variable) -> list[Tensor]:
    """The tensors in an operand, which consists of nothing else."""
    value = value.realize(m)
    if isinstance(value, Tensor):
        return [value]
    if isinstance(value, (Tuple, List)):
        return [tensor for part in value.items for tensor in _tensors(m, part)]
    if isinstance(value, Dict):
        return [tensor for _, part in value.whole(m).values() for tensor in _tensors(m, part)]
    raise Unsupported("torch.cond of operands that are no tensors")


@handles("torch._higher_order_ops.utils._maybe_compile_and_run_fn")
def _run(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    """A compiler is at work already."""
    return m.calls.call(args[0], args[1:], kwargs)


@handles("torch._higher_order_ops.scan.ScanOp.__call__")
def _scan(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    function, init, xs, more = _given(("combine_fn", "init", "xs", "additional_inputs"), args, kwargs)
    carried, over = _all_tensors(m, init), _all_tensors(m, xs)
    rest = m.iteration.elements(more)
    trees: list[Variable] = []

    def step(values: list[Variable]) -> Variable:
        made = m.calls.call(function, [*values, *rest], {}).realize(m)
        if not isinstance(made, (Tuple, List)) or len(made.items) != 2:
            raise Unsupported("a scan whose function gives no pair")
        (carry, first), (rows, second) = (_flat(m, part) for part in made.items)
        if len(carry) != len(carried):
            raise Unsupported("a scan whose function carries on more or fewer values than it takes")
        trees[:] = [first, second]
        return m.builder.new_tuple([*carry, *rows])

    found = m.subgraphs.scan(step, carried, over, _tensors_among(m, rest))
    parts = [found[: len(carried)], found[len(carried) :]]
    return m.builder.new_tuple([_tree(m, leaves, tree) for leaves, tree in zip(parts, trees, strict=True)])


@handles("torch._higher_order_ops.map.MapImpl.__call__")
def _map(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    function, xs, more = _given(("f", "xs", "pos_args"), args, kwargs)
    rest = m.iteration.elements(more)
    shown: list[Variable] = []
    trees: list[Variable] = []

    def step(values: list[Variable]) -> Variable:
        leaves, tree = _flat(m, m.calls.call(function, [*values, *rest], {}))
        shown[:], trees[:] = leaves, [tree]
        return m.builder.new_tuple([leaf for leaf in leaves if not m.builder.is_none(leaf)])

    found = iter(m.subgraphs.scan(step, [], _all_tensors(m, xs), _tensors_among(m, rest)))
    return _tree(m, [leaf if m.builder.is_none(leaf) else next(found) for leaf in shown], trees[0])


@handles("torch._higher_order_ops.associative_scan.AssociativeScanOp.__call__")
def _associative_scan(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    function, xs, more = _given(("combine_fn", "xs", "additional_inputs"), args, kwargs)
    return _combined(m, function, xs, more)


@handles("torch._higher_order_ops.associative_scan.generic_associative_scan")
def _generic_associative_scan(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    """In torch's function, which has it call the function for many slices at once, by vmap: here it is called for each."""
    if not _within_torchs_own(m) or kwargs.keys() != {"additional_inputs"} or len(args) != 2:
        raise Unsupported("generic_associative_scan, called by itself")
    flat = args[0].realize(m)
    given = flat.keywords(m) if isinstance(flat, Partial) else {}
    batched = given["combine_fn"].realize(m) if "combine_fn" in given else None
    if not isinstance(flat, Partial) or not isinstance(batched, Function) or "func" not in batched.code.co_freevars:
        raise Unsupported("an associative scan by another function than torch's")
    one = m.effects.created(Partial(flat.function, flat.args, given | {"combine_fn": batched.held(m, "func")}))
    return _combined(m, one, args[1], kwargs["additional_inputs"])


def _within_torchs_own(m: Interpreter) -> bool:
    frame = m.state.frames[-1]
    where = frame.globals.get("__name__")
    return bool(where == "torch._higher_order_ops.associative_scan" and frame.code.co_name == "associative_scan")


def _combined(m: Interpreter, function: Variable, xs: Variable, more: Variable) -> Variable:
    rest = m.iteration.elements(more)

    def combine(values: list[Variable]) -> Variable:
        return m.builder.new_tuple(_flat(m, m.calls.call(function, [*values, *rest], {}))[0])

    over = _all_tensors(m, xs)
    if over[0].fake.shape[0] == 1:  # nothing to do, and eager gives what it was given
        return m.builder.new_tuple(list(over))
    return m.builder.new_tuple(m.subgraphs.associative_scan(combine, over))


def _given(names: tuple[str, ...], args: Args, kwargs: Kwargs) -> list[Variable]:
    """The arguments of an operation by these names, which its method gets after itself."""
    given = dict(zip(names, args[1:], strict=False)) | kwargs
    if len(given) < len(args) - 1 + len(kwargs) or given.keys() != set(names):
        raise Unsupported("an operation of control flow with these arguments")
    return [given[name] for name in names]


def _all_tensors(m: Interpreter, values: Variable) -> list[Tensor]:
    found = [value.realize(m) for value in m.iteration.elements(values)]
    if not all(isinstance(value, Tensor) for value in found):
        raise Unsupported("a scan of more than tensors")
    return found  # type: ignore[return-value]


def _tensors_among(m: Interpreter, values: list[Variable]) -> list[Tensor]:
    return [tensor for value in values if isinstance(tensor := value.realize(m), Tensor)]


def _flat(m: Interpreter, value: Variable) -> tuple[list[Variable], Variable]:
    """The leaves of a structure, as torch finds them, and what puts it together again."""
    leaves, tree = m.iteration.elements(m.calls.call(m.builder.known(tree_flatten), [value], {}))
    return [leaf.realize(m) for leaf in m.iteration.elements(leaves)], tree


def _tree(m: Interpreter, leaves: list[Variable], tree: Variable) -> Variable:
    return m.calls.call(m.builder.known(tree_unflatten), [m.builder.new_tuple(leaves), tree], {})
