"""`torch.utils.checkpoint.checkpoint`: a part of the graph, whose values its backward computes again.

In: calls of it. Out: what the function computes, each call marked (`meta["checkpoint"]`, a `symshapes.Checkpoint`); run as it is the
graph gives what eager gives, and who cuts it into forward and backward knows what not to keep. Eager runs the function twice, which
is not captured where it would be seen: changes of what is outside, and draws that are not repeated.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.utils import checkpoint as checkpoints

from capture.errors import Unsupported

from .base import Args, Interpreter, Kwargs, Variable
from .constants import Constant
from .handlers import handles
from .partials import Partial
from .tensors import Tensor

_OWN = ("use_reentrant", "context_fn", "determinism_check", "debug", "early_stop", "preserve_rng_state")
_KEEPS = (checkpoints.CheckpointPolicy.MUST_SAVE, checkpoints.CheckpointPolicy.PREFER_SAVE)


@handles("torch.utils.checkpoint.checkpoint")
def _checkpoint(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    given = dict(kwargs)
    function, *rest = [given.pop("function"), *args] if "function" in given else args
    own = {name: given.pop(name) for name in _OWN if name in given}
    plain = {name: m.builder.to_python(value) for name, value in own.items() if name != "context_fn"}
    reentrant = plain.get("use_reentrant")
    if reentrant is None or plain.get("debug") or (reentrant and (given or "context_fn" in own)):
        raise Unsupported("a checkpoint with these arguments")
    if m.levels.inside:
        raise Unsupported("a checkpoint within a function transform")
    m.recorder.read_again.require()
    saves = _saves(m, own["context_fn"]) if "context_fn" in own else None
    asked = m.recorder.asked_grad
    with m.effects.later.reading_twice():
        result, calls = m.subgraphs.checkpointed(lambda: m.calls.call(function, rest, given), saves)
    if torch.is_grad_enabled():
        m.recorder.read_again.note(calls, m.recorder.fake_mode.written)
    if not plain.get("preserve_rng_state", True) and any("effect" in node.meta for node in calls):
        # Of operations that write to their own, it is not told whether they draw what they write.
        raise Unsupported("a checkpoint that draws other random numbers when it computes again")
    if reentrant and torch.is_grad_enabled():
        if m.recorder.asked_grad != asked:
            raise Unsupported(
                "a reentrant checkpoint whose function asks about gradients, which it gets at the second time"
            )
        _require_reentrant(m, rest, result)
    return result


def _saves(m: Interpreter, contexts: Variable) -> Callable[[Any, tuple[Any, ...], dict[str, Any]], bool]:
    """What a selective checkpoint keeps."""
    partial = contexts.realize(m)
    made = partial.function.realize(m) if isinstance(partial, Partial) else partial
    if not isinstance(partial, Partial) or not m.builder.is_constant(made) or len(partial.args) != 1:
        raise Unsupported("a checkpoint within contexts of the program's")
    if m.builder.to_python(made) is not checkpoints.create_selective_checkpoint_contexts:
        raise Unsupported("a checkpoint within contexts of the program's")
    policy = m.builder.to_python(partial.args[0])
    if isinstance(policy, (list, tuple)):
        kept = frozenset(policy)
        return lambda op, args, kwargs: op in kept
    context = checkpoints.SelectiveCheckpointContext(is_recompute=False)
    # What it says changes no result: it is asked while the graph is compiled.
    return lambda op, args, kwargs: policy(context, op, *args, **kwargs) in _KEEPS


def _require_reentrant(m: Interpreter, args: Args, result: Variable) -> None:
    """Raise where gradients would flow otherwise than to the arguments themselves and to what the function has from elsewhere, from all
    results: the function runs without gradients first, then again on copies of its arguments."""
    given = [value for arg in args if isinstance(value := arg.realize(m), Tensor)]
    nested = [part for arg in args if not isinstance(arg.realize(m), Tensor) for part in _within(m, arg)]
    if not any(value.fake.requires_grad for value in given) or any(part.fake.requires_grad for part in nested):
        raise Unsupported("a reentrant checkpoint, none of whose arguments is differentiable, or one within another")
    whole = result.realize(m)
    made = [whole] if isinstance(whole, Tensor) else m.iteration.elements(whole)
    keys = {value.fake.storage_key for value in (*given, *nested)}  # type: ignore[attr-defined]
    for part in made:
        value = part.realize(m)
        if isinstance(value, Constant):
            continue
        if not isinstance(value, Tensor) or not value.fake.requires_grad or value.fake.storage_key in keys:  # type: ignore[attr-defined]
            raise Unsupported("a reentrant checkpoint of which not every result is new and differentiable")


def _within(m: Interpreter, value: Variable) -> list[Tensor]:
    real = value.realize(m)
    if isinstance(real, Tensor):
        return [real]
    return [tensor for part in real.contents(m) for tensor in _within(m, part)]
