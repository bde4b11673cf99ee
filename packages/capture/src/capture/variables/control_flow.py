"""`torch.cond` and `while_loop`: both branches, or the loop's body, are evaluated into graphs of their own.

What eager refuses, or means otherwise, is not captured: then eager's own runs, with its own errors.
"""

from __future__ import annotations

import torch

from capture.errors import Unsupported

from .base import Args, Interpreter, Kwargs, Variable
from .constants import Constant
from .handlers import handles
from .mappings import Dict
from .numbers import Symbolic
from .sequences import List, Tuple
from .tensors import Tensor


@handles("torch._higher_order_ops.cond.cond")
def _cond(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    given = dict(zip(("pred", "true_fn", "false_fn", "operands"), args, strict=False)) | kwargs
    if len(given) < len(args) + len(kwargs) or not {"pred", "true_fn", "false_fn"} <= given.keys():
        raise Unsupported("torch.cond with these arguments")
    operands = m.iteration.elements(given["operands"]) if "operands" in given else []
    condition = given["pred"].realize(m)
    if isinstance(condition, Constant | Symbolic):
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
    if isinstance(value, Tuple | List):
        return [tensor for part in value.items for tensor in _tensors(m, part)]
    if isinstance(value, Dict):
        return [tensor for _, part in value.whole(m).values() for tensor in _tensors(m, part)]
    raise Unsupported("torch.cond of operands that are no tensors")
