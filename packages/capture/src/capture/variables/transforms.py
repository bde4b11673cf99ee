"""`torch.func` and `vmap`: torch's own Python of them is evaluated, down to levels and the wrappers of tensors at a level.

In: calls of what that Python is made of. Out: calls in the graph, between those that enter a level and leave it; plain fx runs them as
eager does, and whoever traces the graph's calls to ATen sees what the transforms come to.
"""

from __future__ import annotations

import sys
from typing import Any

import torch
from torch.autograd import forward_ad
from torch.utils._pytree import tree_leaves

from capture import _torch
from capture.errors import Unsupported
from capture.guards import GuardKind

from .base import Args, Interpreter, Kwargs, Variable
from .constants import Constant
from .handlers import Handler, handles
from .iterators import SequenceIterator
from .sequences import Tuple
from .tensors import Tensor

# Levels


@handles(_torch.enter_vmap, "torch._functorch.predispatch._vmap_increment_nesting")
def _enter_vmap(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    return m.levels.enter(_torch.enter_vmap, args)


@handles(_torch.leave_vmap, "torch._functorch.predispatch._vmap_decrement_nesting")
def _leave_vmap(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    return m.levels.leave(_torch.leave_vmap)


@handles(_torch.enter_grad)
def _enter_grad(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    return m.levels.enter(_torch.enter_grad, [])


@handles(_torch.leave_grad)
def _leave_grad(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    return m.levels.leave(_torch.leave_grad)


@handles("torch._functorch.eager_transforms.enter_jvp_nesting")
def _enter_jvp(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    level = m.levels.enter(_torch.enter_jvp, [])
    _count_jvp(m, 1)
    return level


@handles("torch._functorch.eager_transforms.exit_jvp_nesting")
def _leave_jvp(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    m.levels.leave(_torch.leave_jvp)
    _count_jvp(m, -1)
    return Constant(None)


def _count_jvp(m: Interpreter, by: int) -> None:
    """Torch's Python asks a global of its own how many there are."""
    namespace, name = m.state.frame.globals, "JVP_NESTING"
    now = m.operators.index(m.globals.read(namespace, name)) + by
    m.globals.write(namespace, name, Constant(now))
    if now == namespace[name]:
        del m.globals.written[id(namespace), name]  # as it was: nothing to be written when the graph ran


@handles("torch._functorch.predispatch.lazy_load_decompositions", "torch._functorch.vmap.lazy_load_decompositions")
def _load(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    load_batched_kernels()
    return Constant(None)


def load_batched_kernels() -> None:
    """Kernels of batches that are written in Python, which torch registers once in a process: fakes need them, too."""
    sys.modules["torch._functorch.vmap"].lazy_load_decompositions()


# Tensors at a level


def _at_level(function: object, place: int) -> Handler:
    def call(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
        given = list(args)
        given[place] = m.levels.level(given[place].realize(m))
        return m.recorder.record("call_function", function, given, kwargs)

    return call


handles(_torch.add_batch, "torch._functorch.predispatch._add_batch_dim")(_at_level(_torch.add_batch, 2))
handles(_torch.remove_batch, "torch._functorch.predispatch._remove_batch_dim")(_at_level(_torch.remove_batch, 1))
handles(_torch.wrap_for_grad)(_at_level(_torch.wrap_for_grad, 1))
handles(_torch.unwrap_for_grad, "torch._functorch.predispatch._unwrap_for_grad")(_at_level(_torch.unwrap_for_grad, 1))


def _wrapping(function: object) -> Handler:
    def ask(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
        value = args[0].realize(m)
        if not isinstance(value, Tensor):
            raise Unsupported(f"{getattr(function, '__name__', function)} of what is no tensor")
        return m.builder.from_python(m.builder.fold(function, [value.fake]))

    return ask


for _question in _torch.WRAPPING:
    handles(_question)(_wrapping(_question))


@handles("torch._functorch.eager_transforms._set_tensor_requires_grad")
def _make_leaf(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    """A wrapper that was just made, which nothing was computed from."""
    tensor = args[0].realize(m)
    if not isinstance(tensor, Tensor) or not _torch.is_wrapped(tensor.fake):
        raise Unsupported("a function transform's leaf that is no tensor of it")
    m.recorder.record("call_method", "requires_grad_", [tensor], {})
    return tensor


@handles("torch._functorch.eager_transforms._autograd_grad")
def _gradients(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    """Gradients of those outputs that have any; zeros for inputs that they do not depend on."""
    names = ("outputs", "inputs", "grad_outputs", "retain_graph", "create_graph")
    given: Kwargs = {"grad_outputs": Constant(None), "retain_graph": Constant(False), "create_graph": Constant(True)}
    given |= dict(zip(names, args, strict=False)) | kwargs
    outputs, inputs = (_tensors(m, given[name]) for name in ("outputs", "inputs"))
    tangents: list[Variable] = []
    differentiable = [output for output in outputs if output.fake.requires_grad]
    if not m.builder.is_none(given["grad_outputs"]):
        pairs = zip(outputs, m.iteration.elements(given["grad_outputs"]), strict=False)
        tangents = [tangent for output, tangent in pairs if output.fake.requires_grad]
        differentiable = differentiable[: len(tangents)]
    zeros = m.builder.known(torch.zeros_like)
    if not differentiable:
        return m.builder.new_tuple([m.calls.call(zeros, [each], {}) for each in inputs])
    wanted: Kwargs = {name: given[name] for name in ("retain_graph", "create_graph")} | {"allow_unused": Constant(True)}
    asked = [m.builder.new_tuple(list(each)) for each in (differentiable, inputs)]
    asked.append(m.builder.new_tuple(tangents) if tangents else Constant(None))
    with torch.autograd.set_multithreading_enabled(False):  # the thread of another device would know no fakes
        found = m.recorder.record("call_function", torch.autograd.grad, asked, wanted)
    gradients = zip(m.iteration.elements(found), inputs, strict=True)
    return m.builder.new_tuple([m.calls.call(zeros, [x], {}) if m.builder.is_none(g) else g for g, x in gradients])


def _tensors(m: Interpreter, values: Variable) -> list[Tensor]:
    found = [value.realize(m) for value in m.iteration.elements(values)]
    if not all(isinstance(value, Tensor) for value in found):
        raise Unsupported("a gradient of what is no tensor")
    return found  # type: ignore[return-value]


@handles("torch._functorch.eager_transforms._chunked_standard_basis_for_")
def _basis(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    """An identity matrix, its columns dealt to tensors, its rows in chunks: torch's own counts columns with tensors."""
    given = dict(zip(("tensors", "tensor_numels", "chunk_size"), args, strict=False)) | kwargs
    tensors = m.iteration.elements(given["tensors"])
    counts = m.iteration.elements(given["tensor_numels"])
    chunk = given.get("chunk_size", Constant(None))
    if not m.builder.is_none(chunk):  # how many chunks there are is known
        counts = [Constant(m.operators.index(count)) for count in counts]
    begins: list[Variable] = [Constant(0)]
    for count in counts:
        begins.append(m.operators.binary("+", begins[-1], count).realize(m))
    total = begins[-1]
    if not tensors or not m.operators.truth(m.operators.compare(">", total, Constant(0))):
        raise Unsupported("a basis of nothing")
    steps: list[tuple[Variable, Variable]] = [(Constant(0), total)]
    if not m.builder.is_none(chunk):
        whole, size = m.operators.index(total), m.operators.index(chunk)
        if size <= 0:
            raise Unsupported("a basis of nothing")
        steps = [(Constant(start), Constant(min(size, whole - start))) for start in range(0, whole, size)]
    chunks: list[Variable] = []
    for start, rows in steps:
        parts: list[Variable] = []
        for tensor, count, begin in zip(tensors, counts, begins, strict=False):
            made = tensor.realize(m).method(m, "new_zeros", [rows, count], {})
            part, offset = made, m.operators.binary("-", start, begin).realize(m)
            if m.builder.is_none(chunk):  # an offset is not to be a symbol
                part, offset = made.method(m, "narrow", [Constant(0), begin, count], {}).realize(m), Constant(0)
            part.method(m, "diagonal", [offset], {}).realize(m).method(m, "fill_", [Constant(1)], {})
            shape = m.iteration.elements(tensor.realize(m).attribute(m, "shape"))
            parts.append(made.method(m, "view", [rows, *shape], {}))
        chunks.append(m.builder.new_tuple(parts))
    made_of: Variable = m.effects.created(SequenceIterator(Tuple(chunks)))
    return made_of


# What holds within levels


@handles(_torch.leaves_allowed)
def _leaves_allowed(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    return Constant(_torch.leaves_allowed())


@handles(_torch.allow_leaves)
def _allow_leaves(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    m.levels.set(_torch.allow_leaves, args)
    return Constant(None)


@handles(_torch.tangents_enabled)
def _tangents_enabled(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    answer = _torch.tangents_enabled()
    if not m.levels.inside:
        m.guards.add(None, GuardKind.ANSWER, (_torch.tangents_enabled, (), answer))
    return Constant(answer)


@handles(_torch.enable_tangents)
def _enable_tangents(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    m.levels.set(_torch.enable_tangents, args)
    return Constant(None)


@handles(forward_ad.enter_dual_level)
def _enter_dual(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    m.levels.set(forward_ad.enter_dual_level, [])
    return Constant(0)


@handles(forward_ad.exit_dual_level)
def _exit_dual(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    m.levels.set(forward_ad.exit_dual_level, [])
    return Constant(None)


def _dual(function: object) -> Handler:
    def call(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
        if m.levels.inside:
            # Of one whose class is asked it is no one call, and what it gives stays one of the class.
            if any(each.realize(m).overrides(m) for each in (*args, *kwargs.values())):
                raise Unsupported("forward-mode differentiation by a tensor whose class is asked about it")
            return m.recorder.record("call_function", function, args, kwargs)
        level = m.globals.read(vars(forward_ad), "_current_level")
        if m.operators.index(level) >= 0:
            raise Unsupported("forward-mode differentiation outside of a function transform")
        # No tangents are had: what torch's own Python says then is that there is none, or that there must be a level.
        return m.calls.inline(m.builder.known(function), args, kwargs)

    return call


for _function in (forward_ad.make_dual, forward_ad.unpack_dual):
    handles(_function)(_dual(_function))


def _no_hooks(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    """Saved-tensor hooks are refused by a transform; those within it break the graph already, so that none may be there before."""
    if m.levels.under_hooks:
        raise Unsupported("a function transform under saved-tensor hooks")
    m.guards.add(None, GuardKind.ANSWER, (_torch.saved_tensor_hooks, (False,), None))
    return Constant(None)


handles(*_torch.FORBID_SAVED_TENSOR_HOOKS, _torch.why_no_saved_tensor_hooks)(_no_hooks)


def _index_by_tensors(self: object, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
    """Within vmap a tensor without dimensions is an index of many: by `Tensor.__getitem__` it would be read."""
    if func is torch.Tensor.__getitem__:
        indices = tree_leaves(args[1])
        if all(isinstance(index, (torch.Tensor, int)) for index in indices):
            device = args[0].device
            given = [torch.tensor(i, dtype=torch.int64, device=device) if isinstance(i, int) else i for i in indices]
            return torch.ops.aten.index.Tensor(args[0], given)
    return func(*args, **(kwargs or {}))


# Torch's own mode for that stands among its compiler, which is not traced into, and indexes by an autograd function of the same gradient.
@handles("torch._dynamo._trace_wrapped_higher_order_op.TransformGetItemToIndex.__torch_function__")
def _torchs_index_by_tensors(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    return m.calls.call(m.builder.known(_index_by_tensors), args, kwargs)
