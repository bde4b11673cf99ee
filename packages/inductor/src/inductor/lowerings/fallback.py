"""What has no lowering: an ATen kernel called on memory, or, for a view, a strided window.

Flows in: any fx call. Flows out: values in memory with the layouts of the node's fake value.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sympy
import torch
from torch import fx

from inductor.ir.builder import Builder
from inductor.ir.indexing import is_empty, same
from inductor.ir.program import StridedView
from inductor.ir.tensor import TensorValue
from inductor.ir.views import AsStrided
from inductor.schedule.extern import takes_any_strides
from symshapes import facts_if_operator

aten = torch.ops.aten

COPYING = {
    getattr(aten, name).default: getattr(aten, f"{name}_copy").default
    for name in ("view_as_real", "view_as_complex", "as_strided")
} | {
    aten.view.dtype: aten.view_copy.dtype,
    aten._conj.default: aten._conj_physical.default,
    aten._neg_view.default: aten.neg.default,
    aten.resolve_conj.default: aten.clone.default,
    aten.resolve_neg.default: aten.clone.default,
}
"""Views that read the same bytes as other numbers, and the kernels that copy instead."""


def fallback(builder: Builder, target: Any, args: Any, kwargs: Any) -> Any:
    """Lower a call of `target` to an extern kernel.

    Raises:
        NotImplementedError: for an operation that writes to an argument, since programs are functional.
    """
    facts = facts_if_operator(target)
    if facts is not None and facts.written:
        raise NotImplementedError(f"{target} writes to its arguments, in a graph that should be functional")
    out = builder.meta()
    if facts is not None and facts.aliases:
        if target in COPYING:
            copied = COPYING[target]
            contiguous = copied.name().endswith(("_copy", "_copy.dtype"))
            if not contiguous and not builder.is_dense(builder.sizes(out.size()), builder.sizes(out.stride())):
                # A kernel's result has no holes: what has some is made contiguous first, and so is the result.
                return builder.extern(copied, (builder.copy(args[0]), *args[1:]), kwargs, out, contiguous=True)
            return builder.extern(copied, as_eager(builder, args), kwargs, out, contiguous=contiguous)
        base = next((a for a in args if isinstance(a, TensorValue)), None)
        one = out[0] if isinstance(out, tuple | list) else out
        if base is None or base.dtype is not one.dtype:
            raise NotImplementedError(f"no lowering for the view {target}")
        fake = first_tensor(builder.node)
        base = in_eager_layout(builder, base, fake)
        if isinstance(out, tuple | list):
            return tuple(window(builder, base, fake, each) for each in out)
        return window(builder, base, fake, out)
    exact = not takes_any_strides(target)
    placed = as_eager(builder, args, exact)
    if facts is not None and facts.in_place is not None and any(isinstance(arg, tuple | list) and arg for arg in args):
        _check_layouts(builder, target, placed)
    return builder.extern(target, placed, as_eager(builder, kwargs, exact), out)


def _check_layouts(builder: Builder, target: Any, args: Sequence[Any]) -> None:
    """Refuse a call that works in the memory of its arguments, and is told where in it to look, if one lies there unlike in eager."""
    assert builder.node is not None
    for node, view in zip(builder.node.args, args, strict=True):
        if isinstance(view, StridedView) and not is_empty(view.size):
            assert isinstance(node, fx.Node)
            fake = node.meta["val"]
            strides = builder.sizes(fake.stride())
            known = zip(view.stride, strides, view.size, strict=True)
            if any(size != 1 and not agree(mine, theirs, fake) for mine, theirs, size in known):
                raise NotImplementedError(f"{target} in memory with strides {strides}")


def first_tensor(node: fx.Node | None) -> Any:
    """The fake value of the node's first tensor argument."""
    assert node is not None
    return next(n.meta["val"] for n in node.all_input_nodes if isinstance(n.meta.get("val"), torch.Tensor))


def in_eager_layout(builder: Builder, value: TensorValue, fake: Any) -> TensorValue:
    """The value in memory with eager's strides, those of dimensions of size 1 aside, so that a view described by strides
    reads the right elements; a copy, where it is elsewhere."""
    builder.realize(value)
    layout = value.layout()
    eager = builder.sizes(fake.stride())
    if layout is not None:
        known = zip(layout.stride, eager, value.size, strict=True)
        if all(size == 1 or agree(mine, theirs, fake) for mine, theirs, size in known):
            return value
    if not builder.is_injective(value.size, eager):
        raise NotImplementedError(f"a view by strides of a tensor with strides {eager}")
    return builder.realize(builder.copy(value, eager))


def window(builder: Builder, base: TensorValue, fake: Any, out: Any) -> TensorValue:
    """What the fake tensor `out`, a view of `fake` in eager, shows of `base`, which has the layout of `fake`."""
    layout = base.layout()
    assert layout is not None
    offset = layout.offset + builder.size(out.storage_offset()) - builder.size(fake.storage_offset())
    return base.view(AsStrided(builder.sizes(out.size()), builder.sizes(out.stride()), offset))


def agree(one: sympy.Expr | int, other: sympy.Expr | int, fake: torch.Tensor) -> bool:
    """Whether two strides are equal for all sizes that the program was captured for."""
    env = getattr(getattr(fake, "fake_mode", None), "shape_env", None)
    return same(one, other) or (
        env is not None
        and env.statically_known(sympy.Eq(sympy.sympify(one), sympy.sympify(other), evaluate=False)) is True
    )


def as_eager(builder: Builder, args: Any, exact: bool = True) -> Any:
    """Arguments with each tensor value in memory under the strides eager has there (the fake values of the node's
    arguments, found by walking both together), with `exact` also in dimensions of size 1: libraries choose kernels by them."""
    assert builder.node is not None
    fakes: dict[int, Any] = {}

    def collect(fx_arg: Any, value: Any) -> None:
        if isinstance(fx_arg, fx.Node) and isinstance(value, TensorValue):
            fakes[id(value)] = fx_arg.meta["val"]
        elif isinstance(fx_arg, tuple | list) and isinstance(value, tuple | list):
            for a, v in zip(fx_arg, value, strict=True):
                collect(a, v)
        elif isinstance(fx_arg, dict) and isinstance(value, dict):
            for key in fx_arg:
                collect(fx_arg[key], value[key])

    if isinstance(args, dict):
        collect(builder.node.kwargs, args)
    else:
        collect(builder.node.args, args)

    def place(value: Any) -> Any:
        if isinstance(value, TensorValue):
            fake = fakes.get(id(value))
            stride = None if fake is None else builder.sizes(fake.stride())
            return builder.strided(value, stride, exact=exact)
        if isinstance(value, tuple | list):
            return type(value)(place(v) for v in value)
        if isinstance(value, dict):
            return {k: place(v) for k, v in value.items()}
        return value

    return place(args)
