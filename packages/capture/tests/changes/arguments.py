"""How arguments are passed."""

from __future__ import annotations

from .table import changed, family, vector

arguments = family("arguments")


@arguments
def keyword_order(call):
    def f(x, **weights):
        for weight in weights.values():
            x = x * weight + 1
        return x, list(weights)

    call(f, vector(), a=1.0, b=2.0)
    call(f, vector(), b=2.0, a=1.0)
    call(f, vector())
    call(f, vector(), a=1.0, b=2.0)


@arguments
def positional_rest(call):
    def f(x, *rest):
        return x * len(rest) + sum(rest)

    for rest in ((), (1,), (1, 2), (1, 2.0), ()):
        call(f, vector(), *rest)


@arguments
def default_given_and_not(call):
    def f(x, k=2, *, j=3):
        return x * k + j

    call(f, vector())
    call(f, vector(), 5)
    call(f, vector(), j=7)
    call(f, vector(), k=2, j=3)
    call(f, vector())


@arguments
def wrong_arguments(call):
    def f(x, k):
        return x * k

    call(f, vector(), 2)
    call(f, vector())
    call(f, vector(), 2, 3)
    call(f, vector(), j=2)
    call(f, vector(), 2)


@arguments
def optional_tensor(call):
    def f(x, y=None):
        return x + 1 if y is None else x + y

    for args in ((), (vector(),), (None,), (2.0,), (vector(),)):
        call(f, vector(), *args)


@arguments
def nested_containers(call):
    def f(tree):
        return tree["a"][0] * tree["b"]["c"]

    for tree in (
        {"a": [vector()], "b": {"c": 2}}, {"a": (vector(),), "b": {"c": 2}}, {"a": [vector()], "b": {"c": vector()}},
        {"a": [vector()], "b": {"c": 2}, "d": 1}, {"a": [vector()], "b": {"c": 3}},
    ):  # fmt: skip
        call(f, tree)


@arguments
def tensor_or_number(call):
    def f(x, k):
        return x * k + (1 if isinstance(k, float) else 2)

    for k in (2, 2.0, vector(), True, 2):
        call(f, vector(), k)


@arguments
def kinds_of_self(call):
    class Scale:
        def __init__(self, k):
            self.k = k

        def __call__(self, x):
            return x * self.k

    for k in (2, 3, 2):
        call(Scale(k), vector())


@arguments
def method_compiled(call):
    class Scale:
        k = 2

        def up(self, x):
            return x * self.k

    scale = Scale()
    up = scale.up
    call.across([changed(scale, "k", 3), changed(Scale, "k", 5)], up, vector())


@arguments
def many_sizes(call):
    import torch

    def f(x):
        return x.sum() * x.shape[0]

    for n in (1, 2, 3, 0, 7, 2):
        call(f, torch.ones(n))
