"""What tensors say of their place in autograd, and how a program changes it in place: leaves, gradients, `data`.

In: the variable of a tensor, whose attribute is read or set or whose method is called. Out: what that comes to. An input that
the program changes so is stood in for by another tensor of the graph over the same memory; the real one changes after the graph ran.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from capture import _torch
from capture.errors import Unsupported
from capture.guards import GuardKind
from symshapes import same_metadata, same_size

from .autograd_history import Act
from .base import Args, Interpreter, Kwargs, Variable
from .constants import Constant

#: Attributes that are read, and those that are set: of the variable of a tensor.
READ: dict[str, Callable[[Interpreter, Any], Variable]] = {}
SET: dict[str, Callable[[Interpreter, Any, Variable], None]] = {}
#: Methods of tensors.
CALLED: dict[str, Callable[[Interpreter, Any, Args, Kwargs], Variable]] = {}


def _in(table: dict[str, Any], name: str) -> Callable[[Any], Any]:
    def register(function: Any) -> Any:
        table[name] = function
        return function

    return register


def note_leaf(m: Interpreter, tensor: Any) -> None:
    """That an input is a leaf, or is none, is not in its metadata."""
    if tensor.value is not None and tensor.source is not None:
        check_unseen(m)
        m.guards.add(tensor.place_of("is_leaf"), GuardKind.EQUALS, tensor.real("is_leaf"))


def check_unseen(m: Interpreter) -> None:
    """Raise ``Unsupported`` where a mode from outside would see guards, and the code around the graph, ask or set what autograd knows."""
    if m.modes.from_outside:
        raise Unsupported("a tensor's place in autograd, under a torch-function mode from outside of the frame")


def set_gradients(m: Interpreter, on: bool) -> None:
    """Gradients are computed, or not, from here on: as autograd itself has it, which tells no mode."""
    m.recorder.state_call(_torch.set_grad_enabled, [Constant(on)])


def called(name: str) -> Callable[[Any], Any]:
    """Register what a method of tensors comes to."""
    return _in(CALLED, name)


# Reading


@_in(READ, "is_leaf")
def _is_leaf(m: Interpreter, tensor: Any) -> Variable:
    note_leaf(m, tensor)
    return Constant(tensor.is_leaf)


@_in(READ, "grad_fn")
def _grad_fn(m: Interpreter, tensor: Any) -> Variable:
    note_leaf(m, tensor)
    if tensor.fake.grad_fn is None:
        return Constant(None)
    m.recorder.note_places(tensor)
    raise Unsupported("Tensor.grad_fn")


@_in(READ, "data")
def _data(m: Interpreter, tensor: Any) -> Variable:
    data: Any = m.recorder.record("call_function", getattr, [tensor, Constant("data")], {})
    m.recorder.graph.uncounted.append(data.fake)
    return data


@_in(READ, "grad")
def _grad(m: Interpreter, tensor: Any) -> Variable:
    """An input's gradient, or that of a leaf made in the frame; of what was computed there is none unless it is kept."""
    if tensor in m.recorder.autograd.accumulating:
        raise Unsupported("Tensor.grad in a hook, in the middle of a backward")
    if "grad" in tensor.given:
        given: Variable = tensor.given["grad"]
        return given
    if tensor.source is None or tensor.value is None:
        if tensor.fake.grad_fn is not None and not m.recorder.autograd.keeps_gradient(tensor):
            raise Unsupported("Tensor.grad of a tensor that was computed in the frame")
        return Constant(None)
    if not tensor.real("is_leaf"):
        raise Unsupported("Tensor.grad of a tensor that was computed before")
    return m.builder.wrap(tensor.real("grad"), tensor.place_of("grad"))


# Writing


def give(m: Interpreter, tensor: Any, name: str, value: Variable) -> None:
    """An attribute is another from here on; that of an input is set after the graph ran."""
    if name in SET:
        check_unseen(m)
    tensor.given[name] = value
    m.effects.mutated(tensor)


def set_by_torch(m: Interpreter, tensor: Any, name: str, value: Variable) -> None:
    """``tensor.name = value`` of a tensor whose class may be asked about it, for one of `SET`; torch asks that class alone."""
    tensor.require_plain(m, name)
    setter = getattr(torch.Tensor, name).__set__
    if m.modes.asks([tensor]) and m.modes.answer(setter, [tensor, value], {}) is not None:
        return
    set_plainly(m, tensor, name, value)


def set_plainly(m: Interpreter, tensor: Any, name: str, value: Variable) -> None:
    """The same, where nobody is asked."""
    if tensor.node is None:
        raise Unsupported(f"setting attribute {name!r} of tensor subclass {tensor.cls.__name__}")
    with m.modes.silent():
        SET[name](m, tensor, value.realize(m))


def _is_in_graph(value: Any) -> bool:
    """Whether a value is a tensor that the graph has."""
    return issubclass(value.python_type(), torch.Tensor) and value.node is not None


def _may_be_grad(m: Interpreter, tensor: Any, value: Any) -> bool:
    """Whether torch takes a value for its gradient, for certain: none, or a tensor just like it."""
    if not _is_in_graph(value):
        return m.builder.is_none(value)
    own, other = tensor.fake, value.fake
    alike = own.dtype is other.dtype and own.device == other.device and own.layout is other.layout
    alike = alike and own.dim() == other.dim() and all(map(same_size, own.shape, other.shape))
    return value is not tensor and alike


@_in(SET, "grad")
def _set_grad(m: Interpreter, tensor: Any, value: Variable) -> None:
    if tensor in m.recorder.autograd.accumulating:
        raise Unsupported("setting attribute 'grad' in a hook, in the middle of a backward")
    made_here = tensor.value is None and tensor.fake.grad_fn is None
    if not (made_here or tensor.source is not None) or not _may_be_grad(m, tensor, value):
        raise Unsupported("setting attribute 'grad' of a tensor")
    give(m, tensor, "grad", value)


@_in(SET, "requires_grad")
def _set_requires_grad(m: Interpreter, tensor: Any, value: Variable) -> None:
    require_grad(m, tensor, m.operators.truth(value))


@_in(SET, "data")
def _set_data(m: Interpreter, tensor: Any, value: Any) -> None:
    """It has the memory of another tensor from here on; given its own, nothing is another."""
    if value is tensor:
        return
    if tensor.fake.is_leaf and tensor.fake.requires_grad:
        _check_kept(m, tensor)  # before all else: where it is set for real, what was kept is another as well
    if not _is_in_graph(value) or tensor.value is None or not tensor.fake.is_leaf:
        raise Unsupported("setting attribute 'data' of a tensor that was computed")
    if type(value.fake) is not type(tensor.fake) or not same_metadata(tensor.fake, value.fake):
        raise Unsupported("setting attribute 'data' of a tensor to one of other metadata")
    if not m.recorder.inference.before and (_of_inference_mode(tensor) or _of_inference_mode(value)):
        raise Unsupported("setting attribute 'data' where a tensor is one of inference mode")
    note_leaf(m, tensor)
    wanted = tensor.fake.requires_grad
    data = _data(m, value)
    _stand_in(m, tensor, data, wanted)
    give(m, tensor, "data", data)


def _check_kept(m: Interpreter, tensor: Any) -> None:
    """Raise ``Unsupported``, at the first of them, for operations on a leaf whose backward may come later: to what they keep of it.

    In eager that is the leaf, with its data of then, or a view, with that of before. A graph keeps one of them for all; of a
    tensor of a class it has, and keeps, another over its memory.
    """
    for user in tensor.node.users:
        results = [each for each in tree_leaves(user.meta.get("val")) if isinstance(each, torch.Tensor)]
        if any(each.requires_grad and each.grad_fn not in m.recorder.autograd.given_up for each in results):
            reason = "an operation on a leaf whose data is set before a backward may come to it"
            raise Unsupported(reason, user.meta.get("step", 0))


def _of_inference_mode(tensor: Any) -> bool:
    return _torch.is_inference(tensor.fake if tensor.value is None else tensor.value)


def require_grad(m: Interpreter, tensor: Any, wanted: bool) -> None:
    """``tensor.requires_grad_(wanted)``."""
    if tensor.fake.requires_grad is wanted:
        return
    if tensor.fake.grad_fn is not None or (wanted and not _differentiable(tensor.fake.dtype)):
        raise Unsupported("Tensor.requires_grad_() of what it cannot be asked of")
    if wanted and not m.recorder.inference.before and _of_inference_mode(tensor):
        raise Unsupported("Tensor.requires_grad_() of an inference tensor")
    if tensor.value is None:
        m.recorder.record("call_method", "requires_grad_", [tensor, Constant(wanted)], {})
        m.recorder.autograd.note(Act(m.state.step, tensor, "a leaf that is made in the frame", made=True))
        return
    note_leaf(m, tensor)
    if not tensor.real("is_leaf"):
        raise Unsupported("Tensor.requires_grad_() of a tensor that was computed before")
    _stand_in(m, tensor, m.recorder.record("call_method", "detach", [tensor], {}), wanted)
    give(m, tensor, "requires_grad", Constant(wanted))


def _differentiable(dtype: torch.dtype) -> bool:
    return dtype.is_floating_point or dtype.is_complex


def _stand_in(m: Interpreter, tensor: Any, other: Any, wanted: bool) -> None:
    """In the graph another tensor stands for an input that is a leaf."""
    if wanted:
        other = m.recorder.record("call_method", "detach", [other], {})
        m.recorder.record("call_method", "requires_grad_", [other], {})
    tensor.node, tensor.fake = other.node, other.fake
    m.recorder.know(tensor)
    if wanted:
        m.recorder.autograd.note(Act(m.state.step, tensor, "a leaf that is another in the frame", then=tensor.fake))


# Methods


@called("requires_grad_")
def _requires_grad(m: Interpreter, tensor: Any, args: Args, kwargs: Kwargs) -> Variable:
    given = [*args, *kwargs.values()]
    if len(given) > 1 or not kwargs.keys() <= {"requires_grad"}:
        raise Unsupported("Tensor.requires_grad_() with these arguments")
    require_grad(m, tensor, m.operators.truth(given[0]) if given else True)
    return tensor


@called("detach_")
def _detach(m: Interpreter, tensor: Any, args: Args, kwargs: Kwargs) -> Variable:
    if args or kwargs:
        raise Unsupported("Tensor.detach_() with arguments")
    if tensor.value is None:
        return m.recorder.record("call_method", "detach_", [tensor], {})
    if tensor.fake.requires_grad or tensor.real("_base") is not None:
        raise Unsupported("Tensor.detach_() of an input")
    m.guards.add(tensor.place_of("_base"), GuardKind.EQUALS, None)
    return tensor


@called("retain_grad")
def _retain_grad(m: Interpreter, tensor: Any, args: Args, kwargs: Kwargs) -> Variable:
    m.recorder.note_places(tensor)
    if tensor.value is not None or not tensor.fake.requires_grad:
        raise Unsupported("Tensor.retain_grad() of an input")
    if tensor.fake.grad_fn is not None and not m.recorder.autograd.keeps_gradient(tensor):
        m.recorder.autograd.note(Act(m.state.step, tensor, "a gradient that is kept", keeps=True))
    return Constant(None)
