"""Functions that claim to be others: wrapped, renamed, objects and classes with foreign names."""

from __future__ import annotations

import functools
import sys
import types

import torch
import torch.nn.functional as F
from torch import nn

from .table import changed, family, vector

program = family("disguise")


def twice(x):
    return x * 2


def thrice(x):
    return x * 3


def applied(call, *functions):
    def f(x, act):
        return act(x) + 1

    for act in functions:
        call(f, vector(), act)
        space = types.SimpleNamespace(act=act)
        call(lambda x, space=space: space.act(x) + 1, vector())


def wrapping(original, factor):
    @functools.wraps(original)
    def wrapped(*args, **kwargs):
        return original(*args, **kwargs) * factor

    return wrapped


@program
def wraps_relu(call):
    applied(call, wrapping(F.relu, 5), F.relu, wrapping(F.relu, 6))


@program
def wraps_builtin_function(call):
    applied(call, wrapping(torch.sigmoid, 5), torch.sigmoid)


@program
def wraps_tensor_method(call):
    applied(call, wrapping(torch.Tensor.relu, 5), torch.Tensor.relu)


@program
def wraps_softmax_with_arguments(call):
    act = wrapping(F.softmax, 5)

    def f(x):
        return act(x, dim=0) + 1

    call(f, vector())


@program
def wraps_math_function(call):
    import math

    root = wrapping(math.sqrt, 5)

    def f(x):
        return x * root(4.0)

    call(f, vector())


@program
def wraps_builtin_len(call):
    longer = wrapping(len, 5)

    def f(x):
        return x * longer([1, 2])

    call(f, vector())


@program
def wraps_twice(call):
    applied(call, wrapping(wrapping(F.relu, 5), 7), wrapping(F.relu, 7))


@program
def wraps_over_wraps_changes_factor(call):
    space = types.SimpleNamespace(factor=2)

    @functools.wraps(F.relu)
    def wrapped(x):
        return F.relu(x) * space.factor

    def f(x):
        return wrapped(x)

    call.across(changed(space, "factor", 9), f, vector())


@program
def foreign_module(call):
    def act(x):
        return x * 7

    act.__module__ = "torch.nn.functional"
    applied(call, act)


@program
def foreign_module_name_and_qualname(call):
    def act(x):
        return x * 7

    act.__module__, act.__name__, act.__qualname__ = "torch.nn.functional", "relu", "relu"
    applied(call, act, F.relu)


@program
def foreign_module_of_standard_library(call):
    def sqrt(x):
        return x * 7

    sqrt.__module__ = "math"

    def f(x):
        return x * sqrt(4)

    call(f, vector())


@program
def foreign_module_made_between(call):
    def act(x):
        return x * 7

    def f(x):
        return act(x)

    call.across([changed(act, "__module__", "torch"), changed(act, "__qualname__", "relu")], f, vector())


@program
def torch_package_in_name_only(call):
    fake = types.ModuleType("torch.nn.functional")
    exec("def relu(x):\n    return x * 7\n", fake.__dict__)
    applied(call, fake.relu)


@program
def executed_with_torch_name_in_globals(call):
    names = {"__name__": "torch.functional", "k": 3}
    exec("def norm(x):\n    return x * k\n", names)

    def f(x):
        return names["norm"](x)

    call.across(changed(names, "k", 5), f, vector())


@program
def callable_object_claims_to_be_relu(call):
    class Act:
        __module__ = "torch.nn.functional"
        __name__ = __qualname__ = "relu"

        def __init__(self, k):
            self.k = k

        def __call__(self, x):
            return x * self.k

    act = Act(2)
    applied(call, act, Act(3))

    def f(x):
        return act(x)

    call.across(changed(act, "k", 4), f, vector())


@program
def callable_class_changed(call):
    class Act:
        def __call__(self, x):
            return x * 2

    act = Act()
    act.__wrapped__ = F.relu
    act.__name__ = "relu"

    def f(x):
        return act(x)

    call.across(changed(Act, "__call__", lambda self, x: x * 3), f, vector())


@program
def class_claims_to_be_torchs(call):
    class Linear(nn.Module):
        def forward(self, x):
            return x * 3

    Linear.__module__ = "torch.nn.modules.linear"
    layer = Linear()
    call.across(changed(Linear, "forward", lambda self, x: x * 4), layer, vector())


@program
def subclass_of_partial(call):
    class Loud(functools.partial):
        def __call__(self, x):
            return super().__call__(x) * 2

    applied(call, Loud(F.relu), functools.partial(F.relu))


@program
def partial_with_attributes_of_relu(call):
    act = functools.partial(F.leaky_relu, negative_slope=0.5)
    functools.update_wrapper(act, F.relu)
    applied(call, act)


@program
def bound_to_tensor(call):
    bound = types.MethodType(torch.add, torch.ones(3))
    applied(call, bound)


@program
def function_bound_as_method(call):
    def scaled(k, x):
        return x * k

    applied(call, types.MethodType(scaled, 2), types.MethodType(scaled, 3))


@program
def static_method_object(call):
    applied(call, staticmethod(wrapping(F.relu, 5)), staticmethod(F.relu))


@program
def descriptor_claims_to_be_method(call):
    class Late:
        __name__ = "relu"

        def __get__(self, instance, owner):
            return functools.partial(torch.mul, torch.full((3,), instance.k))

    class Holder:
        relu = Late()
        k = 2.0

    holder = Holder()

    def f(x):
        return holder.relu(x)

    call.across(changed(holder, "k", 5.0), f, vector())


@program
def class_method_wraps(call):
    class Holder:
        k = 2

        @classmethod
        @functools.wraps(F.relu)
        def act(cls, x):
            return F.relu(x) * cls.k

    def f(x):
        return Holder.act(x)

    call.across(changed(Holder, "k", 3), f, vector())


@program
def wrapped_attribute_points_elsewhere(call):
    def act(x):
        return x * 2

    act.__wrapped__ = F.relu

    def f(x):
        return act(x)

    call.across([changed(act, "__wrapped__", F.silu)], f, vector())


@program
def wrapped_called(call):
    act = wrapping(twice, 5)

    def f(x):
        return act.__wrapped__(x)

    call.across(changed(act, "__wrapped__", thrice), f, vector())


@program
def type_subclass_of_builtin_name(call):
    class int_(int):
        def __new__(cls, value):
            return super().__new__(cls, value + 1)

    int_.__name__, int_.__module__ = "int", "builtins"

    def f(x):
        return x * int_(2)

    call(f, vector())


@program
def list_subclass_with_builtin_name(call):
    class list_(list):
        def __len__(self):
            return 9

    list_.__name__, list_.__qualname__, list_.__module__ = "list", "list", "builtins"

    def f(x, items):
        return x * len(items)

    call(f, vector(), [1])
    call(f, vector(), list_([1]))
    call(f, vector(), [1])


@program
def context_manager_wraps_no_grad(call):
    class no_grad:
        def __enter__(self):
            return 5

        def __exit__(self, *exc):
            return False

    no_grad.__module__, no_grad.__qualname__ = "torch.autograd.grad_mode", "no_grad"

    def f(x):
        with no_grad() as k:
            return x * k

    call(f, vector().requires_grad_())


@program
def module_in_sys_modules_replaced(call):
    name = "_changes_plugin"
    first, second = types.ModuleType(name), types.ModuleType(name)
    first.k, second.k = 2, 3

    def f(x):
        import _changes_plugin

        return x * _changes_plugin.k

    with changed(sys.modules, name, first):
        call.across([changed(sys.modules, name, second), changed(first, "k", 5)], f, vector())


@program
def lru_cache_wraps_relu(call):
    seen = []

    @functools.lru_cache
    def factor(k):
        seen.append(k)
        return k + 1

    functools.update_wrapper(factor, F.relu)
    call.state = seen

    def f(x, k):
        return x * factor(k)

    for k in (1, 1, 2, 1):
        call(f, vector(), k)
