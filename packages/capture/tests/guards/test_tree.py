"""Merging guards: each source once, each fact once, cheap facts first."""

import pytest
import torch

from capture.guards import Guard, GuardKind, build_tree, guard_program
from capture.sources import Attr, Const, Global, Item, Local, ModuleGlobal


def frame(self, x):
    pass


SELF = Local("self")


class Layer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(2, 2)
        self.scale = 3


def linear(name):
    return Item(Attr(Item(Attr(SELF, "_modules", via_dict=True), "linear"), "_parameters", via_dict=True), name)


def test_shared_prefixes_are_read_once():
    layer = Layer()
    guards = [
        Guard(linear("weight"), GuardKind.ID, layer.linear.weight),
        Guard(SELF, GuardKind.TYPE, Layer),
        Guard(linear("bias"), GuardKind.ID, layer.linear.bias),
        Guard(Attr(SELF, "scale", via_dict=True), GuardKind.EQUALS, 3),
        Guard(linear("bias"), GuardKind.ID, layer.linear.bias),
    ]
    tree = build_tree(guards)
    assert len(tree.guards) == 4
    assert [node.source.name for node in tree.nodes()] == [
        "self", "self._modules", "self.linear", "self.linear._parameters", "self.linear.weight", "self.linear.bias",
        "self.scale",
    ]  # fmt: skip
    made = guard_program(tree, frame.__code__)
    assert made.check((layer, 1))
    layer.linear.bias = torch.nn.Parameter(torch.zeros(2))
    assert "self.linear.bias" in made.explain_failure((layer, 1))
    layer.linear = torch.nn.ReLU()
    assert made.explain_failure((layer, 1)) == str(guards[0])  # of what cannot even be read


def test_facts_are_in_order_of_cost():
    guards = [
        Guard(Local("x"), GuardKind.HAS_ATTR, "real"),
        Guard(Local("x"), GuardKind.EQUALS, 5),
        Guard(Local("x"), GuardKind.TYPE, int),
        Guard(None, GuardKind.GRAD_MODE, True),
    ]
    assert [g.kind for g in build_tree(guards).guards] == [
        GuardKind.GRAD_MODE, GuardKind.TYPE, GuardKind.EQUALS, GuardKind.HAS_ATTR,
    ]  # fmt: skip


def test_printed():
    guards = [
        Guard(Local("x"), GuardKind.TYPE, int, "f.py:1 in f"),
        Guard(Attr(Local("x"), "real"), GuardKind.EQUALS, 5),
        Guard(Local("x"), GuardKind.SAME_OBJECT, Attr(Local("x"), "real")),
        Guard(None, GuardKind.GRAD_MODE, False),
    ]
    assert str(build_tree(guards)).splitlines() == [
        "torch.is_grad_enabled() is False",
        "x",
        "  | type(x) is int  # f.py:1 in f",
        "  x.real",
        "    | x.real == 5",
        "x is x.real",
    ]


def test_equal_constants_of_other_types_are_other_facts():
    guards = [Guard(Local("x"), GuardKind.EQUALS, value) for value in (1, True, 1.0, 1)]
    assert len(build_tree(guards).guards) == 3


def test_sources_that_the_frame_lacks():
    for source in (Local("nowhere"), Local("y")):
        with pytest.raises(ValueError, match="not an argument"):
            guard_program(build_tree([Guard(source, GuardKind.TYPE, int)]), frame.__code__)


def test_wide_and_deep_trees():
    values = [[i] for i in range(500)]
    guards = [Guard(Item(Item(Local("x"), i), 0), GuardKind.EQUALS, i) for i in range(500)]
    guards.append(Guard(Item(Local("x"), 0), GuardKind.DISTINCT, tuple(Item(Local("x"), i) for i in range(1, 60))))
    made = guard_program(build_tree(guards), frame.__code__)
    assert made.check((None, values))
    values[7] = values[30]
    assert "are different objects" in guard_program(build_tree(guards[-1:]), frame.__code__).explain_failure(
        (None, values)
    )
    values[7] = [7]
    values[499][0] = -1
    assert made.explain_failure((None, values)) == "x[499][0] == 499"
    nested, source = [], Local("x")
    inner = nested
    for _ in range(300):
        inner.append([])
        inner, source = inner[0], Item(source, 0)
    made = guard_program(build_tree([Guard(source, GuardKind.LEN, 0)]), frame.__code__)
    assert made.check((None, nested))


def test_namespaces_of_other_modules():
    guards = [
        Guard(ModuleGlobal("torch.nn.functional", name, vars(torch.nn.functional)), GuardKind.ID, value)
        for name, value in (("relu", torch.nn.functional.relu), ("gelu", torch.nn.functional.gelu))
    ]
    tree = build_tree(guards)
    assert next(node.source for node in tree.nodes()) == Const(vars(torch.nn.functional))
    assert guard_program(tree, frame.__code__).check((None, None))
    guard = Guard(Global("frame"), GuardKind.ID, frame)
    made = guard_program(build_tree([guard]), frame.__code__)
    assert made.check((None, None), globals=globals())
    assert not made.check((None, None), globals={}) and not made.check((None, None))
