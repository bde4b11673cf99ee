"""Globals, builtins and what libraries hold: shadowed, replaced, removed."""

from __future__ import annotations

import builtins
import functools
import math
import operator
import sys
import types

import torch
import torch.nn.functional as F
from torch import nn

from .table import changed, family, matrix, removed, vector

program = family("patches")

K = 2
UNUSED = object()


@program
def global_number(call):
    def f(x):
        return x * K

    call.across([changed(globals(), "K", 3), removed(globals(), "K")], f, vector())


@program
def global_written(call):
    def f(x):
        global K
        K = K + 1
        return x * K

    with changed(globals(), "K", 2):
        for _ in range(3):
            call(f, vector())
        call.note(K)


@program
def global_deleted_by_program(call):
    def f(x):
        global GONE
        del GONE
        return x + 1

    with changed(globals(), "GONE", 1):
        call(f, vector())
        call.note("GONE" in globals())
        call(f, vector())


@program
def builtin_shadowed_by_global(call):
    def f(x):
        return x * len([1, 2])

    call.across(changed(globals(), "len", lambda _: 9), f, vector())


@program
def builtin_type_shadowed_by_global(call):
    def f(x):
        return x * int(2.5) if isinstance(2, int) else x

    call.across(changed(globals(), "int", float), f, vector())


@program
def builtin_function_replaced(call):
    def f(x):
        return x * divmod(7, 4)[1]

    call.across(changed(builtins, "divmod", lambda a, b: (a, b)), f, vector())


@program
def builtin_len_replaced(call):
    marked, real = [1, 2, 3], len

    def f(x):
        return x * len(marked)

    call.across(changed(builtins, "len", lambda v: 50 if v is marked else real(v)), f, vector())


@program
def builtin_print_replaced(call):
    seen = []
    call.state = seen

    def f(x):
        print("here")
        return x + 1

    call.across(changed(builtins, "print", lambda *a: seen.append(a)), f, vector())


@program
def builtin_added(call):
    def f(x):
        return x * extra_name  # noqa: F821

    call.across([changed(builtins, "extra_name", 3), changed(globals(), "extra_name", 4)], f, vector())


@program
def builtin_removed(call):
    def f(x):
        return x * hash(True)

    call.across(removed(builtins, "hash"), f, vector())


@program
def builtins_module_asked(call):
    def f(x):
        return x * builtins.divmod(7, 4)[1]

    call.across(changed(builtins, "divmod", lambda a, b: (a, b)), f, vector())


@program
def torch_function_replaced(call):
    def f(x):
        return torch.relu(x) + 1

    call.across([changed(torch, "relu", torch.neg), changed(torch, "relu", lambda x: x * 9)], f, vector())


@program
def torch_function_replaced_by_wraps(call):
    real = torch.sigmoid

    @functools.wraps(real)
    def louder(x):
        return real(x) * 10

    def f(x):
        return torch.sigmoid(x) + 1

    call.across(changed(torch, "sigmoid", louder), f, vector())


@program
def functional_replaced(call):
    def f(x):
        return F.relu(x) + 1

    call.across([changed(F, "relu", F.silu), changed(F, "relu", lambda x: x * 9), removed(F, "relu")], f, vector())


@program
def functional_replaced_under_a_layer(call):
    layer = nn.Sequential(nn.Linear(3, 3), nn.ReLU())
    nn.init.constant_(layer[0].weight, 0.5)
    nn.init.constant_(layer[0].bias, 0.5)
    call.across(
        [changed(F, "linear", lambda x, w, b: x * 7), changed(F, "relu", lambda x, inplace: -x)], layer, matrix()
    )


@program
def functional_global_of_its_module(call):
    layer = nn.LeakyReLU(0.5)
    call.across(changed(F, "has_torch_function_unary", lambda x: False), layer, matrix())
    other = types.SimpleNamespace(leaky_relu=lambda x, slope, inplace: x * 5)
    call.across(changed(sys.modules[nn.LeakyReLU.__module__], "F", other), layer, matrix())


@program
def functional_internals_replaced(call):
    def f(x):
        return F.softmax(x, dim=-1)

    call.across(changed(F, "_get_softmax_dim", lambda *a: 0), f, matrix())
    call.across(changed(F, "has_torch_function_unary", lambda *a: False), f, matrix())


@program
def math_replaced(call):
    def f(x):
        return x * math.sqrt(4.0)

    call.across(changed(math, "sqrt", lambda v: 11.0), f, vector())


@program
def math_constant_replaced(call):
    def f(x):
        return x * math.pi

    call.across(changed(math, "pi", 3.0), f, vector())


@program
def operator_replaced(call):
    def f(x):
        return operator.mul(x, 2)

    call.across(changed(operator, "mul", operator.add), f, vector())


@program
def standard_library_python_function_replaced(call):
    import statistics

    def f(x):
        return x * statistics.fmean([1.0, 3.0])

    call.across(changed(statistics, "fmean", lambda v: 9.0), f, vector())


@program
def standard_library_constant_replaced(call):
    import string

    def f(x):
        return x * len(string.digits)

    call.across(changed(string, "digits", "01"), f, vector())


@program
def environment_variable(call):
    import os

    def f(x):
        return x * (2 if "CHANGES_FLAG" in os.environ else 3)

    call(f, vector())
    os.environ["CHANGES_FLAG"] = "1"
    call(f, vector())
    del os.environ["CHANGES_FLAG"]
    call(f, vector())


@program
def argv_and_version(call):
    def f(x):
        return x * len(sys.argv)

    call.across(changed(sys, "argv", ["a"] * 7), f, vector())


@program
def tensor_method_replaced(call):
    def f(x):
        return x.relu() + 1

    call.across(
        [changed(torch.Tensor, "relu", torch.Tensor.neg), changed(torch.Tensor, "relu", lambda x: x * 9)], f, vector()
    )


@program
def tensor_operator_replaced(call):
    def f(x):
        return x % 2

    call.across(changed(torch.Tensor, "__mod__", lambda x, y: x * 50), f, vector())


@program
def tensor_method_added(call):
    def f(x):
        return x.tripled() if hasattr(x, "tripled") else x

    call.across(changed(torch.Tensor, "tripled", lambda x: x * 3), f, vector())


@program
def tensor_property_added(call):
    def f(x):
        return x * x.weight_of

    with changed(torch.Tensor, "weight_of", property(lambda x: 2)):
        call.across(changed(torch.Tensor, "weight_of", property(lambda x: 3)), f, vector())


@program
def tensor_attribute_on_instance(call):
    x = vector()
    x.k = 2

    def f(x):
        return x * x.k

    call.across([changed(x, "k", 3), removed(x, "k")], f, x)


@program
def imported_name(call):
    user = types.ModuleType("_changes_user")
    user.k = 2

    def f(x):
        from _changes_user import k

        return x * k

    with changed(sys.modules, "_changes_user", user):
        call.across([changed(user, "k", 3), removed(user, "k")], f, vector())
    call(f, vector())


@program
def import_function_replaced(call):
    real = builtins.__import__
    other = types.SimpleNamespace(pi=1.0)

    def f(x):
        import math

        return x * math.pi

    call.across(
        changed(builtins, "__import__", lambda name, *a: other if name == "math" else real(name, *a)), f, vector()
    )


@program
def random_functions_replaced(call):
    import random

    def f(x):
        return x * random.random()

    with changed(random, "random", lambda: 2.0):
        call.across(changed(random, "random", lambda: 3.0), f, vector())


@program
def time_replaced(call):
    import time

    def f(x):
        return x * time.time()

    with changed(time, "time", lambda: 2.0):
        call.across(changed(time, "time", lambda: 3.0), f, vector())


@program
def stdout_replaced(call):
    import contextlib
    import io

    out = io.StringIO()

    def f(x):
        print("line", x.shape[0])
        return x + 1

    call(f, vector())
    with contextlib.redirect_stdout(out):
        f(vector())
    call(f, vector())
    call.note(out.getvalue())


@program
def torch_function_predicates(call):
    def f(x):
        return x * (2 if torch.is_tensor(x) else 3) + (1 if torch.overrides.is_tensor_like(x) else 0)

    call.across(
        [changed(torch, "is_tensor", lambda v: False), changed(torch.overrides, "is_tensor_like", lambda v: False)],
        f,
        vector(),
    )


@program
def tensor_like_object(call):
    class Like:
        def __torch_function__(self, func, types, args=(), kwargs=None):
            return 5

    like = Like()

    def f(x):
        return x * (2 if torch.overrides.is_tensor_like(like) else 3)

    call(f, vector())
    call.across(removed(Like, "__torch_function__"), f, vector())
