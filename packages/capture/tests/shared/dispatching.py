"""Classes of tensors that say below autograd what operations on them are, as programs have them."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._python_dispatch import return_and_correct_aliasing

aten = torch.ops.aten
#: What these were asked.
ASKED: list[tuple[str, list[str]]] = []


class Defaulting(torch.Tensor):
    """Two tensors, with each of which everything is done; torch's own `__torch_function__` is asked first."""

    a: torch.Tensor
    b: torch.Tensor

    @staticmethod
    def __new__(cls, a, b):
        return torch.Tensor._make_wrapper_subclass(
            cls, a.size(), strides=a.stride(), storage_offset=a.storage_offset(), dtype=a.dtype, layout=a.layout,
            device=a.device, requires_grad=a.requires_grad,
        )  # fmt: skip

    def __init__(self, a, b):
        self.a, self.b = a, b

    def __repr__(self):
        return f"{type(self).__name__}({self.a}, {self.b})"

    def __tensor_flatten__(self):
        return ["a", "b"], None

    @classmethod
    def __tensor_unflatten__(cls, inner, context, size, stride):
        return cls(inner["a"], inner["b"])

    @classmethod
    def __torch_dispatch__(cls, func, types, args, kwargs):
        ASKED.append((str(func), [each.__name__ for each in types]))

        def part(value: Any, name: str) -> Any:
            if isinstance(value, list | tuple):
                return type(value)([part(each, name) for each in value])
            return getattr(value, name) if isinstance(value, Defaulting) else value

        first = func(*part(args, "a"), **(kwargs or {}))
        second = func(*part(args, "b"), **(kwargs or {}))
        if isinstance(first, list | tuple):
            return type(first)([cls(*both) for both in zip(first, second, strict=True)])
        return cls(first, second) if isinstance(first, torch.Tensor) else first


class Pair(Defaulting):
    """The same, of which nothing is asked above autograd."""

    __torch_function__ = torch._C._disabled_torch_function_impl


class Eighths(torch.Tensor):
    """A weight as whole numbers and a scale a row."""

    whole: torch.Tensor
    scale: torch.Tensor
    __torch_function__ = torch._C._disabled_torch_function_impl

    @staticmethod
    def __new__(cls, whole, scale):
        return torch.Tensor._make_wrapper_subclass(cls, whole.shape, dtype=scale.dtype, device=whole.device)

    def __init__(self, whole, scale):
        self.whole, self.scale = whole, scale

    @classmethod
    def of(cls, weight):
        scale = weight.abs().amax(1, keepdim=True) / 127
        return cls((weight / scale).round().to(torch.int8), scale)

    def dequantize(self):
        return self.whole.to(self.scale.dtype) * self.scale

    def __tensor_flatten__(self):
        return ["whole", "scale"], None

    @classmethod
    def __tensor_unflatten__(cls, inner, context, size, stride):
        return cls(inner["whole"], inner["scale"])

    @classmethod
    def __torch_dispatch__(cls, func, types, args, kwargs):
        if func in (aten.detach.default, aten.clone.default, aten.alias.default):
            made = cls(func(args[0].whole), func(args[0].scale))
            return return_and_correct_aliasing(func, args, kwargs, made)
        if func is aten.t.default:
            return args[0].dequantize().t()
        return func(*[each.dequantize() if isinstance(each, cls) else each for each in args], **kwargs)


class Overridden(Eighths):
    """One whose products are its own to do, above autograd."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if func is torch.nn.functional.linear:
            x, weight, bias = args
            return (x @ weight.whole.t().to(x.dtype)) * weight.scale.t() + bias
        with torch._C.DisableTorchFunctionSubclass():
            return func(*args, **(kwargs or {}))


class Sized(Pair):
    """One that says itself what its sizes are."""

    @staticmethod
    def __new__(cls, a, b):
        return torch.Tensor._make_wrapper_subclass(
            cls, a.size(), dtype=a.dtype, dispatch_sizes_strides_policy="strides"
        )

    @classmethod
    def __torch_dispatch__(cls, func, types, args, kwargs):
        if func is aten.sym_stride.default:
            return args[0].a.stride()
        return super().__torch_dispatch__(func, types, args, kwargs)


class Holding(torch.Tensor):
    """One with memory of its own, of which its class is asked all the same."""

    __torch_function__ = torch._C._disabled_torch_function_impl

    @staticmethod
    def __new__(cls, data):
        return torch.Tensor._make_subclass(cls, data)

    @classmethod
    def __torch_dispatch__(cls, func, types, args, kwargs):
        ASKED.append((str(func), [each.__name__ for each in types]))
        if func is aten.alias.default:
            with torch.utils._python_dispatch._disable_current_modes():
                return super().__torch_dispatch__(func, types, args, kwargs)
        plain = [torch.full(each.shape, 3.0) if isinstance(each, cls) else each for each in args]
        return func(*plain, **(kwargs or {}))
