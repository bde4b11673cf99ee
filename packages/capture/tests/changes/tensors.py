"""Tensors as arguments, attributes and globals: metadata, views, names, flags, aliasing."""

from __future__ import annotations

import types

import torch
from torch import nn

from .table import changed, family, matrix, vector

program = family("tensors")


def each(call, f, *tensors):
    for tensor in tensors:
        call(f, tensor)
    space = types.SimpleNamespace(tensor=tensors[0])

    def held():
        return f(space.tensor)

    call.across([changed(space, "tensor", tensor) for tensor in tensors[1:]], held)


@program
def dtype(call):
    each(
        call,
        lambda x: x * 2.5,
        vector(),
        vector().double(),
        vector().int(),
        vector().bool(),
        vector().to(torch.bfloat16),
    )


@program
def dtype_asked(call):
    each(call, lambda x: x * (2 if x.dtype == torch.float32 else 3), vector(), vector().double())


@program
def shape(call):
    each(
        call,
        lambda x: x.reshape(-1) * x.shape[0],
        vector(),
        matrix(),
        torch.ones(1),
        torch.ones(0),
        torch.tensor(2.0).reshape(1),
    )


@program
def rank_zero(call):
    each(call, lambda x: x * (x.dim() + 2), torch.tensor(2.0), vector(), matrix())


@program
def strides(call):
    each(
        call,
        lambda x: (x * 2, x.stride(), x.is_contiguous()),
        matrix(),
        matrix().t().contiguous().t(),
        matrix()[:, ::2],
    )


@program
def storage_offset(call):
    base = torch.arange(6.0)
    each(call, lambda x: x * (x.storage_offset() + 1), base[:3], base[1:4], base[3:], vector())


@program
def as_strided_takes_the_offset(call):
    base = torch.arange(6.0)
    each(call, lambda x: x.as_strided((2,), (1,)) + 1, base[:3], base[2:5])


@program
def offset_by_comparison(call):
    base = torch.arange(6.0)
    each(call, lambda x: x + 1 if x.storage_offset() else x - 1, base[:3], base[3:], base[:3])


@program
def view_and_base(call):
    base = vector()
    each(call, lambda x: x * (2 if x._is_view() else 3), base, base[:], base.view(3))


@program
def base_asked(call):
    base = vector()
    each(call, lambda x: x * (2 if x._base is None else 3), base, base[:])


@program
def base_is_the_other_argument(call):
    base, other = vector(), vector()

    def f(x, y):
        return x * (2 if x._base is y else 3)

    for x, y in ((base[:], base), (base[:], other), (base, base), (base[:], base)):
        call(f, x, y)


@program
def mutation_through_a_view(call):
    base = torch.arange(6.0)

    def f(x, y):
        x.add_(1)
        return y * 2

    call(f, base[:3], base[3:])
    call(f, base[:3], base[1:4])
    call(f, base[:3], base[:3])
    call(f, vector(), base[:3])
    call.note(base)


@program
def requires_grad(call):
    each(call, lambda x: (x * 2, x.requires_grad), vector(), vector().requires_grad_(), vector())


@program
def leaf_and_gradient_function(call):
    leaf = vector().requires_grad_()
    each(call, lambda x: x * (2 if x.is_leaf else 3) * (5 if x.grad_fn is None else 7), leaf, leaf * 1, vector())


@program
def gradient_present(call):
    x = vector().requires_grad_()

    def f(x):
        return x.detach() * (2 if x.grad is None else 3)

    call(f, x)
    x.grad = torch.ones(3)
    call(f, x)
    x.grad = None
    call(f, x)


@program
def gradient_read(call):
    x = vector().requires_grad_()
    x.grad = torch.ones(3)

    def f(x):
        return x.grad * 2

    call(f, x)
    x.grad = torch.full((3,), 5.0)
    call(f, x)
    x.grad = None
    call(f, x)


def names(call):
    named, other = vector().rename("a"), vector().rename("b")

    def f(x):
        return x.rename(None) * (2 if x.names == ("a",) else 3 if x.names == ("b",) else 5)

    for tensor in (named, other, vector(), named):
        call(f, tensor)


def names_by_method(call):
    plain, named = matrix(), matrix().rename("r", "c")

    def f(x):
        return (x.sum(0) * (2 if x.has_names() else 3)).rename(None)

    for tensor in (plain, named, plain):
        call(f, tensor)


if hasattr(torch.Tensor, "rename"):  # torch 2.13 has no named tensors
    program(names)
    program(names_by_method)


@program
def inference_tensor(call):
    with torch.inference_mode():
        inference = vector()

    def f(x):
        return x.clone() * (2 if x.is_inference() else 3)

    for tensor in (vector(), inference, vector()):
        call(f, tensor)


@program
def inference_tensor_in_training(call):
    weight = vector().requires_grad_()
    with torch.inference_mode():
        inference = vector()

    def f(x):
        return x * weight

    for tensor in (vector(), inference, vector()):
        call(f, tensor)


@program
def inference_tensor_mutated(call):
    with torch.inference_mode():
        inference = vector()

    def f(x):
        return x.add_(1)

    for tensor in (vector(), inference, vector()):
        call(f, tensor)


@program
def conjugate_bit(call):
    x = torch.tensor([1 + 2j, 3 - 1j])

    def f(x):
        return x * (2 if x.is_conj() else 3), torch.view_as_real(x.resolve_conj())

    for tensor in (x, x.conj(), x.conj().resolve_conj(), x):
        call(f, tensor)


@program
def negative_bit(call):
    x = torch.tensor([1 + 2j, 3 - 1j])

    def f(x):
        return x * (2 if x.is_neg() else 3)

    for tensor in (x.imag, x.conj().imag, x.imag):
        call(f, tensor)


@program
def data_replaced(call):
    weight = vector()

    def f(x):
        return x * weight

    call(f, vector())
    weight.data = vector() * 10
    call(f, vector())
    weight.data = torch.tensor([[2.0], [3.0]])
    call(f, vector())
    weight.data = vector().double()
    call(f, vector())


@program
def data_of_argument_replaced(call):
    x = vector()

    def f(x):
        return x * 2

    call(f, x)
    x.data = matrix()
    call(f, x)
    x.data = vector()[1:]
    call(f, x)


@program
def resized_and_set(call):
    x = torch.arange(6.0)

    def f(x):
        return x * x.numel()

    call(f, x)
    x.resize_(2, 3)
    call(f, x)
    x.set_(torch.ones(4))
    call(f, x)
    x.squeeze_().unsqueeze_(0)
    call(f, x)


@program
def transposed_in_place(call):
    x = matrix()

    def f(x):
        return x * x.shape[0], x.stride()

    call(f, x)
    x.t_()
    call(f, x)
    x.t_()
    call(f, x)


@program
def subclass(call):
    class Tagged(torch.Tensor):
        pass

    def f(x):
        return x * (2 if isinstance(x, Tagged) else 3)

    for tensor in (vector(), vector().as_subclass(Tagged), nn.Parameter(vector()), vector()):
        call(f, tensor)


@program
def class_of_tensor(call):
    class Tagged(torch.Tensor):
        k = 5

    x = vector()

    def f(x):
        return x * getattr(x, "k", 2)

    call.across(changed(x, "__class__", Tagged), f, x)


@program
def two_arguments_the_same(call):
    def f(x, y):
        x.mul_(2)
        return x + y, x is y

    one, two = vector(), vector()
    for pair in ((one, two), (one, one), (one, two), (two, two)):
        call(f, *pair)


@program
def argument_is_the_attribute(call):
    space = types.SimpleNamespace(state=vector())
    call.state = space

    def f(x):
        x.mul_(2)
        return space.state + x

    call(f, vector())
    call(f, space.state)
    call(f, space.state[:])
    call(f, vector())


@program
def overlapping_views(call):
    base = torch.arange(6.0)

    def f(x, y):
        x += 1
        y *= 2
        return x + y

    for pair in ((base[:3], base[3:]), (base[:3], base[2:5]), (base[:3], base[:3]), (base[:3], base[3:])):
        call(f, *pair)
    call.note(base)


@program
def version_counter(call):
    x = vector()

    def f(x):
        return x * (x._version + 1)

    call(f, x)
    x.add_(1)
    call(f, x)


@program
def sparse_and_dense(call):
    def f(x):
        return (x * 2).to_dense() * (2 if x.is_sparse else 3)

    for tensor in (matrix(), matrix().to_sparse(), matrix()):
        call(f, tensor)


@program
def attribute_tensor_replaced(call):
    space = types.SimpleNamespace(scale=torch.tensor(2.0))

    def f(x):
        return x * space.scale

    call.across(
        [changed(space, "scale", torch.tensor(3.0)), changed(space, "scale", 4.0), changed(space, "scale", torch.ones(3).double())],
        f, vector(),
    )  # fmt: skip


@program
def value_read(call):
    space = types.SimpleNamespace(scale=torch.tensor(2.0))

    def f(x):
        return x * space.scale.item() if space.scale > 1 else x

    call(f, vector())
    space.scale.fill_(5.0)
    call(f, vector())
    space.scale.fill_(0.5)
    call(f, vector())


@program
def pinned_layout_and_element_size(call):
    each(call, lambda x: x * (x.element_size() + x.nbytes), vector(), vector().double(), vector().half())


@program
def identity_kept(call):
    x, y = vector(), vector()

    def f(x, flag):
        return x if flag else x * 1

    call.note(call(f, x, True) is x, call(f, x, False) is x, call(f, y, True) is y)
