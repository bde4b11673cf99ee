"""`Tensor.backward`, `torch.autograd.backward` and `torch.autograd.grad` of what the frame computed: calls of the graph, and gradients of leaves.

In: calls of them. Out: one call of `torch.autograd.grad` in the graph; what it gives is accumulated as autograd does it. Where
the way back leaves the frame, or meets what runs for its effect, they break the graph.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Sequence
from typing import Any

import torch

from capture._torch import inside, is_view
from capture.custom_gradients import grad_without_hooks
from capture.errors import Unsupported
from capture.guards import Guard, GuardKind
from symshapes import is_dense, same_size

from .autograd_history import Behind, behind, watched
from .autograd_state import give, note_leaf
from .base import Args, Interpreter, Kwargs, Variable
from .constants import Constant
from .handlers import handles
from .hooks import call_waiting
from .leaf_hooks import LeafHooks, hooks_of, order_of, quiet
from .sequences import Tuple
from .tensors import Tensor
from .transforms import load_batched_kernels

_GRAD = ("outputs", "inputs", "grad_outputs", "retain_graph", "create_graph", "only_inputs", "allow_unused",
         "is_grads_batched", "materialize_grads")  # fmt: skip
_BACKWARD = ("tensors", "grad_tensors", "retain_graph", "create_graph", "grad_variables", "inputs")
_NONE = Constant(None)


@handles(torch.autograd.grad)
def _grad(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    given = _named(_GRAD, args, kwargs)
    asked = _tensors(m, given["inputs"])
    outputs = _tensors(m, given["outputs"])
    m.recorder.note_places(*outputs, *asked)
    batched = _flag(m, given, "is_grads_batched")
    if not _flag(m, given, "only_inputs", True):
        raise Unsupported("torch.autograd.grad of more than its inputs")
    materialize = _flag(m, given, "materialize_grads")
    allow_unused = _flag(m, given, "allow_unused", materialize)
    if materialize and not allow_unused:
        raise Unsupported("torch.autograd.grad with zeros for what must be used")
    _require_unwatched(m)
    found = behind([output.fake for output in outputs])
    _require_told(m, found, outputs, asked)
    for leaf in (*_leaves(m, found), *asked):
        note_leaf(m, leaf)
    hooks = [hooks_of(m, tensor, accumulated=False) for tensor in asked]
    if any(hooks):
        raise Unsupported("torch.autograd.grad of a tensor with hooks")
    create = _flag(m, given, "create_graph")
    keep = _flag(m, given, "retain_graph", create)
    by = given.get("grad_outputs")
    gradients = _differentiate(m, found, outputs, by, asked, keep, create, allow_unused, batched=batched)
    if materialize:
        with m.modes.silent():
            gradients = [
                _record(m, "call_function", torch.zeros_like, [tensor], {}) if m.builder.is_none(one) else one
                for one, tensor in zip(gradients, asked, strict=True)
            ]
        if create and any(m.builder.is_none(one) for one in gradients):
            raise Unsupported("zeros for gradients that are to be differentiated")
    made: Variable = m.effects.created(Tuple(gradients))
    return made


@handles(torch.autograd.backward)
def _backward(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    given = _named(_BACKWARD, args, kwargs)
    outputs = _tensors(m, given["tensors"])
    inputs = given.get("inputs", _NONE).realize(m)
    named = None if m.builder.is_none(inputs) else _tensors(m, inputs)
    m.recorder.note_places(*(named or ()))
    if "grad_variables" in given:
        raise Unsupported("torch.autograd.backward with grad_variables")
    _require_unwatched(m)
    found = behind([output.fake for output in outputs])
    leaves = _leaves(m, found)
    wanted = leaves if named is None else named
    _require_told(m, found, outputs, named)
    hooks = {}
    for leaf in leaves:
        note_leaf(m, leaf)
        if leaf in wanted:
            hooks[id(leaf)] = hooks_of(m, leaf, accumulated=True)
    if any(tensor.fake.grad_fn is not None for tensor in wanted):
        raise Unsupported("Tensor.backward() with inputs that were computed")
    create = _flag(m, given, "create_graph")
    keep = _flag(m, given, "retain_graph", create)
    kept = [t for t in m.recorder.autograd.keeping_gradients(found.nodes) if named is None]
    if any(hooks.values()):
        if kept:
            raise Unsupported("Tensor.backward() that keeps gradients beside hooks")
        wanted = order_of(m, outputs, wanted)
    known = set(m.recorder.fakes)
    asked = [*wanted, *kept]
    hooked = [t for t in kept if m.recorder.autograd.has_hooks(t)] if wanted else []
    apart = [leaf for leaf in wanted if hooks.get(id(leaf), LeafHooks()).before]
    gradients = _differentiate(m, found, outputs, given.get("grad_tensors"), asked, keep, create, True, hooked, apart)
    memory = Counter(_memory(tensor) for tensor in m.recorder.fakes.values())
    memory += Counter(_memory(one) for one in gradients if isinstance(one, Tensor))  # one tensor may be several of them
    for tensor, new in zip(asked, gradients, strict=True):
        if m.builder.is_none(new):
            continue
        own_hooks = hooks.get(id(tensor), LeafHooks())
        if own_hooks:
            with quiet(m, create):
                new = own_hooks.gradient(m, new)
        assert isinstance(new, Tensor)
        with m.modes.silent():
            old = tensor.torch_attribute(m, "grad").realize(m)
        own = not (create or own_hooks.before or id(new.fake) in known) and memory[_memory(new)] == 2
        made = _accumulated(m, tensor, old, new, own, create)
        if made is not old:
            give(m, tensor, "grad", made)
        if own_hooks:
            with quiet(m, create):
                own_hooks.accumulated(m, tensor)
    return Constant(None)


def _named(names: Sequence[str], args: Args, kwargs: Kwargs) -> Kwargs:
    given = dict(zip(names, args, strict=False)) | kwargs
    if len(given) < len(args) + len(kwargs) or not given.keys() <= set(names) or not set(names[:1]) <= given.keys():
        raise Unsupported("a backward with these arguments")  # eager says what is wrong
    return given


def _flag(m: Interpreter, given: Kwargs, name: str, default: bool = False) -> bool:
    value = given.get(name)
    if value is None or m.builder.is_none(value.realize(m)):
        return default
    return m.operators.truth(value)


def _tensors(m: Interpreter, value: Variable) -> list[Tensor]:
    """One tensor, or a sequence of them."""
    if m.levels.inside:
        raise Unsupported("gradients asked for within a function transform")
    value = value.realize(m)
    items = [value] if isinstance(value, Tensor) else [item.realize(m) for item in m.iteration.elements(value)]
    found = [item for item in items if isinstance(item, Tensor)]
    if len(found) != len(items) or not found:
        raise Unsupported("gradients of, or by, what is no tensor")
    return found


def _leaves(m: Interpreter, found: Behind) -> list[Tensor]:
    """The variables of the leaves behind."""
    return [m.recorder.fakes[id(leaf)] for leaf in found.leaves if id(leaf) in m.recorder.fakes]


def _require_unwatched(m: Interpreter) -> None:
    if m.levels.inside:
        raise Unsupported("Tensor.backward() within a function transform")
    if m.recorder.autograd.is_watched:
        so = Guard(None, GuardKind.ANSWER, (watched, (), True))
        raise Unsupported("Tensor.backward() that somebody watches", while_so=(so,))
    m.guards.add(None, GuardKind.ANSWER, (watched, (), False))


def _require_told(m: Interpreter, found: Behind, outputs: Sequence[Tensor], asked: Sequence[Tensor] | None) -> None:
    """Raise where the way back may lead through history that the frame did not make.

    `asked`: what gradients are wanted by; None for all leaves. What was computed in the frame cannot stand behind
    what was computed before; of two inputs that were computed before, one may stand behind the other.
    """
    if found.unknown or len(_leaves(m, found)) < len(found.leaves):
        raise Unsupported("Tensor.backward() through control flow in the graph")
    if any(m.recorder.fakes[id(leaf)].fake is not leaf for leaf in found.leaves):
        raise Unsupported("Tensor.backward() by a leaf that was another before, when it was computed with")
    for output in outputs:
        if output.fake.grad_fn is None and output.fake.requires_grad:
            raise Unsupported("Tensor.backward() of a leaf")
    if not found.outside:
        return
    own = asked is not None and all(
        t.value is None or (len(found.outside) == 1 and t.fake.grad_fn in found.outside) for t in asked
    )
    if not own:
        raise Unsupported("Tensor.backward() of what depends on tensors that were computed before")


def _differentiate(
    m: Interpreter,
    found: Behind,
    outputs: Sequence[Tensor],
    by: Variable | None,
    asked: Sequence[Tensor],
    keep: bool,
    create: bool,
    allow_unused: bool,
    after_hooks: Sequence[Tensor] = (),
    without_hooks: Sequence[Tensor] = (),
    *,
    batched: bool = False,
) -> list[Variable]:
    """The call in the graph: for each of `asked` its gradient, or None; of `after_hooks` among them what hooks made of it.

    Hooks of inputs, `without_hooks`, are left to the caller.
    """
    given = _NONE if by is None else by.realize(m)
    if isinstance(given, Tensor):
        given = Tuple([given])
    elif not m.builder.is_none(given):
        given = Tuple(m.iteration.elements(given))
    if not asked:
        raise Unsupported("Tensor.backward() without any leaf")
    m.recorder.require_history(outputs)
    flags: Kwargs = {
        "retain_graph": Constant(keep),
        "create_graph": Constant(create),
        "allow_unused": Constant(allow_unused),
    }
    if batched:
        load_batched_kernels()
        flags["is_grads_batched"] = Constant(True)
    arguments: Args = [Tuple(list(outputs)), Tuple(list(asked)), given]

    def gradient_of(tensor: Tensor) -> Variable:
        one: Args = [arguments[0], Tuple([tensor]), given]
        kept = flags | {"retain_graph": Constant(True), "allow_unused": Constant(True)}
        made = _record(m, "call_function", torch.autograd.grad, one, kept).realize(m)
        assert isinstance(made, Tuple)
        return made.items[0].realize(m)

    if batched and any(act.waits is not None for act in m.recorder.autograd.acts):
        raise Unsupported("torch.autograd.grad of a batch of gradients, with hooks")
    replaced = call_waiting(m, found, asked, gradient_of, create)
    # Beside others autograd gives what comes to a tensor before its hooks; what it keeps is what they make of it.
    alone = {id(t): gradient_of(t) for t in after_hooks}
    arguments[1] = Tuple([tensor for tensor in asked if id(tensor) not in alone])
    if without_hooks:
        if replaced:
            raise Unsupported("Tensor.backward() with hooks on inputs and on what was computed")
        arguments.append(Tuple(list(without_hooks)))
    function = grad_without_hooks if without_hooks else torch.autograd.grad
    made = _record(m, "call_function", function, arguments, flags).realize(m)
    assert isinstance(made, Tuple)
    for hook in replaced:
        m.custom_gradients.unhook(hook)
    if not keep:
        m.recorder.autograd.given_up |= found.nodes
        m.recorder.read_again.done(found.nodes)
    left = iter(made.items)
    return [alone[id(tensor)] if id(tensor) in alone else next(left).realize(m) for tensor in asked]


def _accumulated(m: Interpreter, leaf: Tensor, old: Variable, new: Tensor, own: bool, create: bool) -> Variable:
    """What becomes of a leaf's gradient, as autograd has it: laid out like the leaf, its own memory, written to if it is there."""
    record = functools.partial(_record, m)
    if isinstance(old, Tensor):
        if create:
            if not torch.is_grad_enabled():
                raise Unsupported("Tensor.backward(create_graph=True) in no_grad")
            return record("call_function", torch.add, [old, new], {})
        if old.fake.requires_grad:
            raise Unsupported("Tensor.backward() into a gradient that is differentiable")
        if leaf.fake.grad_fn is not None:  # what `retain_grad` keeps is another tensor each time
            return record("call_function", torch.add, [old, new], {})
        record("call_method", "add_", [old, new], {})
        return old
    if not m.builder.is_none(old):
        raise Unsupported("Tensor.backward() into a gradient that is no tensor")
    dense = is_dense(leaf.fake)
    if own and (_laid_out_alike(new.fake, leaf.fake) if dense else new.fake.is_contiguous()):
        # Nobody sees of what it is a view, and one of something refuses to be detached in its place.
        return record("call_method", "detach", [new], {}) if is_view(new.fake) else new
    if leaf.fake.grad_fn is not None or not dense:
        return record("call_method", "clone", [new], {"memory_format": Constant(torch.contiguous_format)})
    made = record("call_function", torch.empty_like, [leaf], {})
    return record("call_method", "copy_", [made, new], {})


def _record(m: Interpreter, op: str, target: Any, args: Args, kwargs: Kwargs) -> Variable:
    """A call in the graph that autograd makes: nobody is asked about it."""
    with m.modes.silent():
        return m.recorder.record(op, target, args, kwargs)


def _memory(tensor: Tensor) -> object:
    return inside(tensor.fake).storage_key


def _laid_out_alike(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether strides are the same, but of sizes of 1."""
    return all(
        same_size(length, 1) or same_size(a, b)
        for length, a, b in zip(one.shape, one.stride(), other.stride(), strict=True)
    )
