"""Parts of functions: code, defaults, closure cells, globals, names, attributes, signatures."""

from __future__ import annotations

import functools
import inspect
import types

import torch
import torch.nn.functional as F

from .table import between, changed, family, removed, vector

program = family("parts")


def other_code(x):
    return x * 3


@program
def code(call):
    def scale(x):
        return x * 2

    def f(x):
        return scale(x) + 1

    call.across(changed(scale, "__code__", other_code.__code__), f, vector())


@program
def code_of_the_compiled_function(call):
    def f(x):
        return x * 2

    call.across(changed(f, "__code__", other_code.__code__), f, vector())


@program
def code_of_method(call):
    class Scale:
        def up(self, x):
            return x * 2

        def upper(self, x):
            return x * 5

    scale = Scale()

    def f(x):
        return scale.up(x)

    call.across(changed(Scale.up, "__code__", Scale.upper.__code__), f, vector())


@program
def code_of_module_forward(call):
    class Block(torch.nn.Module):
        def forward(self, x):
            return x * 2

        def other(self, x):
            return x * 7

    block = Block()
    call.across(changed(Block.forward, "__code__", Block.other.__code__), torch.nn.Sequential(block), vector())


@program
def code_of_library_function(call):
    def other(input, inplace=False):
        return input * 9

    def f(x):
        return F.relu(x) + 1

    call.across(changed(F.relu, "__code__", other.__code__), f, vector())


@program
def code_of_library_forward(call):
    def other(self, x):
        return x * 9

    layer = torch.nn.Sequential(torch.nn.Tanh())
    call.across(changed(torch.nn.Tanh.forward, "__code__", other.__code__), layer, vector())


@program
def constants_replaced_in_code(call):
    def scale(x):
        return x * 2.5

    def f(x):
        return scale(x)

    constants = tuple(7.5 if c == 2.5 else c for c in scale.__code__.co_consts)
    call.across(changed(scale, "__code__", scale.__code__.replace(co_consts=constants)), f, vector())


@program
def equal_code_object(call):
    def scale(x):
        return x * 2

    def f(x):
        return scale(x)

    call.across(changed(scale, "__code__", scale.__code__.replace()), f, vector())


@program
def defaults(call):
    def scale(x, k=2):
        return x * k

    def f(x):
        return scale(x)

    call.across([changed(scale, "__defaults__", (3,)), changed(scale, "__defaults__", None)], f, vector())


@program
def default_count(call):
    def scale(x, k=2, j=3):
        return x * k + j

    def f(x):
        return scale(x, 5)

    call.across([changed(scale, "__defaults__", (9, 8, 7)), changed(scale, "__defaults__", (8,))], f, vector())


@program
def default_of_the_compiled_function(call):
    def f(x, k=2):
        return x * k

    call.across(changed(f, "__defaults__", (3,)), f, vector())


@program
def default_container_mutated(call):
    def scale(x, ks=[2]):
        ks.append(len(ks))
        return x * sum(ks)

    def f(x):
        return scale(x)

    call(f, vector())
    call(f, vector())
    scale.__defaults__[0].clear()
    call(f, vector())


@program
def keyword_defaults(call):
    def scale(x, *, k=2):
        return x * k

    def f(x):
        return scale(x)

    call.across([changed(scale, "__kwdefaults__", {"k": 3}), changed(scale, "__kwdefaults__", None)], f, vector())


@program
def keyword_default_in_place(call):
    def scale(x, *, k=2):
        return x * k

    def f(x):
        return scale(x)

    call.across([changed(scale.__kwdefaults__, "k", 3), removed(scale.__kwdefaults__, "k")], f, vector())


@program
def default_of_library_function(call):
    def f(x):
        return F.leaky_relu(x)

    call.across(changed(F.leaky_relu, "__defaults__", (0.5, False)), f, vector())


@program
def attribute(call):
    def scale(x):
        return x * scale.k

    scale.k = 2

    def f(x):
        return scale(x)

    call.across([changed(scale, "k", 3), removed(scale, "k")], f, vector())


@program
def attribute_asked_for(call):
    def scale(x):
        return x * 2

    def f(x):
        return scale(x) * (5 if hasattr(scale, "flag") else 7) * getattr(scale, "k", 1)

    call.across([changed(scale, "flag", True), changed(scale, "k", 3)], f, vector())


@program
def attribute_dict_replaced(call):
    def scale(x):
        return x * 2

    scale.k = 2

    def f(x):
        return x * scale.k

    call.across(changed(scale, "__dict__", {"k": 4}), f, vector())


@program
def name(call):
    def scale(x):
        return x

    def f(x):
        return x * len(scale.__name__) + len(scale.__qualname__)

    call.across([changed(scale, "__name__", "s"), changed(scale, "__qualname__", "s")], f, vector())


@program
def name_read_from_library_function(call):
    def f(x):
        return x * len(F.relu.__name__)

    call.across(changed(F.relu, "__name__", "rectified"), f, vector())


@program
def docstring_and_module(call):
    def scale(x):
        """Doc."""

    def f(x):
        return x * len(scale.__doc__ or "") + len(scale.__module__)

    call.across(
        [changed(scale, "__doc__", "d"), changed(scale, "__doc__", None), changed(scale, "__module__", "m")],
        f,
        vector(),
    )


@program
def annotations(call):
    def scale(x: 2):
        return x

    def f(x):
        return x * len(scale.__annotations__)

    call.across(changed(scale, "__annotations__", {"x": 2, "y": 3}), f, vector())


@program
def signature(call):
    def scale(x, k=2):
        return x

    def f(x):
        return x * len(inspect.signature(scale).parameters)

    call.across(changed(scale, "__code__", (lambda x, k, j=1: x).__code__), f, vector())


@program
def signature_given(call):
    def scale(x, k=2):
        return x

    given = inspect.Signature([inspect.Parameter("x", inspect.Parameter.POSITIONAL_ONLY)])

    def f(x):
        return x * len(inspect.signature(scale).parameters)

    call.across(changed(scale, "__signature__", given), f, vector())


@program
def argument_names(call):
    def scale(x, k=2):
        return x

    def f(x):
        return x * scale.__code__.co_argcount

    call.across(changed(scale, "__code__", (lambda x, k, j=1: x).__code__), f, vector())


@program
def closure_cell_content(call):
    k = 2

    def scale(x):
        return x * k

    def f(x):
        return scale(x)

    cell = scale.__closure__[0]
    call.across(changed(cell, "cell_contents", 3), f, vector())


@program
def closure_cell_emptied(call):
    k = 2

    def scale(x):
        return x * k

    def f(x):
        return scale(x)

    call(f, vector())
    del k
    call(f, vector())
    k = 5
    call(f, vector())


@program
def closure_shared(call):
    k = 2

    def up():
        nonlocal k
        k += 1

    def f(x):
        return x * k

    call(f, vector())
    up()
    call(f, vector())
    call(lambda x: (up(), x * k)[1], vector())
    call(f, vector())


@program
def nonlocal_written(call):
    count = 0

    def f(x):
        nonlocal count
        count += 1
        return x * count

    for _ in range(3):
        call(f, vector())
    count = 10
    call(f, vector())
    call.note(count)


@program
def globals_of_executed(call):
    names = {"k": 2}
    exec("def scale(x):\n    return x * k\n", names)
    scale = names["scale"]

    def f(x):
        return scale(x)

    call.across([changed(names, "k", 3), removed(names, "k")], f, vector())


@program
def same_code_other_globals(call):
    def f(x, act):
        return act(x)

    base = types.FunctionType((lambda x: x * k).__code__, {"k": 2})  # noqa: F821
    other = types.FunctionType(base.__code__, {"k": 3})
    for act in (base, other, base):
        call(f, vector(), act)
    base.__globals__["k"] = 9
    call(f, vector(), base)


@program
def builtins_of_executed(call):
    names = {"__builtins__": {"len": lambda _: 5}}
    exec("def scale(x):\n    return x * len([1])\n", names)
    scale = names["scale"]

    def f(x):
        return scale(x)

    call.across(changed(names["__builtins__"], "len", lambda _: 6), f, vector())


@program
def generator_function_code(call):
    def steps():
        yield 2
        yield 3

    def others():
        yield 5

    def f(x):
        return x * sum(steps())

    call.across(changed(steps, "__code__", others.__code__), f, vector())


@program
def decorated_in_place(call):
    space = types.SimpleNamespace()

    def scale(x):
        return x * 2

    space.scale = scale

    def f(x):
        return space.scale(x)

    call.across(changed(space, "scale", functools.wraps(scale)(lambda x: scale(x) + 100)), f, vector())


@program
def frame_code_seen_by_two_functions(call):
    def make(k):
        def f(x):
            return x * k

        return f

    two, three = make(2), make(3)
    for fn in (two, three, two):
        call(fn, vector())
    with between(lambda: setattr(two.__closure__[0], "cell_contents", 8), lambda: None):
        call(two, vector())
        call(three, vector())
