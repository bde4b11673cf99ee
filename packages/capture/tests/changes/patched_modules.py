"""Modules of the library and of the user: what of them is replaced."""

from __future__ import annotations

import types

from torch import nn

from .table import between, changed, family, matrix, removed, vector

program = family("patches")


@program
def layer_forward_replaced_on_library_class(call):
    layer = nn.Linear(3, 3)
    nn.init.constant_(layer.weight, 0.5)
    nn.init.constant_(layer.bias, 0.5)
    call.across(changed(nn.Linear, "forward", lambda self, x: x * 9), nn.Sequential(layer), matrix())


@program
def module_call_replaced(call):
    layer = nn.Sequential(nn.Tanh())
    call.across(changed(nn.Module, "__call__", lambda self, x: x * 9), lambda x: layer(x), matrix())


@program
def module_call_impl_replaced(call):
    layer = nn.Sequential(nn.Tanh())
    call.across(changed(nn.Module, "_call_impl", lambda self, x: x * 9), lambda x: layer(x), matrix())


@program
def module_call_added_on_library_class(call):
    layer = nn.Sequential(nn.Tanh())
    call.across(changed(nn.Tanh, "__call__", lambda self, x: x * 9), layer, matrix())


@program
def module_getattr_replaced(call):
    layer = nn.Sequential(nn.Linear(3, 3, bias=False))
    nn.init.constant_(layer[0].weight, 0.5)
    real = nn.Module.__getattr__

    def doubled(self, name):
        found = real(self, name)
        return found * 2 if name == "weight" else found

    call.across(changed(nn.Module, "__getattr__", doubled), layer, matrix())


@program
def global_forward_hooks(call):
    layer = nn.Sequential(nn.Tanh())
    handles = []
    register = nn.modules.module.register_module_forward_hook

    call.across(
        between(
            lambda: handles.append(
                register(lambda module, args, out: out * 3 if isinstance(module, nn.Tanh) else None)
            ),
            lambda: handles.pop().remove(),
        ),
        layer,
        matrix(),
    )


@program
def global_forward_pre_hooks(call):
    layer = nn.Sequential(nn.Tanh())
    handles = []
    register = nn.modules.module.register_module_forward_pre_hook

    call.across(
        between(
            lambda: handles.append(
                register(lambda module, args: (args[0] * 3,) if isinstance(module, nn.Tanh) else None)
            ),
            lambda: handles.pop().remove(),
        ),
        layer,
        matrix(),
    )


@program
def user_module_attribute(call):
    user = types.ModuleType("user")
    exec("k = 2\ndef scale(x):\n    return x * k\n", user.__dict__)

    def f(x):
        return user.scale(x)

    call.across(
        [changed(user, "k", 3), changed(user, "scale", lambda x: x * 7), removed(user, "k"), removed(user, "scale")],
        f,
        vector(),
    )


@program
def user_module_getattr(call):
    user = types.ModuleType("user")

    def f(x):
        return x * user.k

    with changed(user, "__getattr__", lambda name: 2):
        call.across([changed(user, "__getattr__", lambda name: 3), changed(user, "k", 5)], f, vector())


@program
def user_module_class(call):
    class Lazy(types.ModuleType):
        @property
        def k(self):
            return 9

    user = types.ModuleType("user")
    user.k = 2

    def f(x):
        return x * user.k

    call.across(changed(user, "__class__", Lazy), f, vector())
