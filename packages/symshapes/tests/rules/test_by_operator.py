"""A table by operator whose entries are made by name."""

import subprocess
import sys

import pytest
import torch

from symshapes import rules
from symshapes.facts import facts_of
from symshapes.rules import by_operator
from symshapes.rules.by_operator import ByOperator, aten
from symshapes.rules.registry import RULES


def test_a_name_stands_for_its_overload_alone():
    table: ByOperator[int] = ByOperator()
    table.named |= {"add.Tensor": 1, "relu": 2, "no_such_operator": 3}
    assert table[torch.ops.aten.add.Tensor] == 1 and table[torch.ops.aten.relu.default] == 2
    for other in (torch.ops.aten.add.Scalar, torch.ops.aten.relu_.default, torch.add, "relu"):
        assert table.get(other) is None
        with pytest.raises(KeyError):
            table[other]
    assert set(table) == {torch.ops.aten.add.Tensor, torch.ops.aten.relu.default} and len(table) == 2


def test_an_operator_of_another_namespace_is_another():
    library = torch.library.Library("by_operator_test", "DEF")
    library.define("relu(Tensor self) -> Tensor")
    assert RULES.get(torch.ops.by_operator_test.relu.default) is None


def test_what_is_set_for_an_operator_goes_first():
    table: ByOperator[int] = ByOperator()
    op = torch.ops.aten.relu.default
    table.named["relu"] = 1
    table[op] = 2
    assert table[op] == 2 and table.by_name(op) == 1 and list(table) == [op]
    del table[op]
    assert table[op] == 1


def test_entries_that_wait_are_imported_until_one_is_there(monkeypatch):
    names = {"first": "sqrt", "second": "relu", "third": "sin"}
    table: ByOperator[str] = ByOperator()
    table.further += names
    monkeypatch.setattr(by_operator, "import_whole", lambda module: table.named.update({names[module]: module}))
    assert table[torch.ops.aten.relu.default] == "second" and table.further == ["third"]
    assert table.get(torch.ops.aten.cos.default) is None and not table.further
    assert set(table) == {getattr(torch.ops.aten, name).default for name in names.values()}


def test_a_thread_that_looks_while_another_imports_the_last_finds_its_entries(monkeypatch):
    table: ByOperator[str] = ByOperator()
    table.further += ["first", "last"]
    monkeypatch.setattr(
        by_operator,
        "import_whole",
        lambda module: table.named.update({{"first": "sin", "last": "cos"}[module]: module}),
    )

    class Named(dict[str, str]):
        def get(self, name, default=None):
            found = super().get(name, default)
            while table.further:
                table._import_further()  # as the other thread does, just after this one looked
            return found

    table.named = Named()
    assert table.by_name(torch.ops.aten.cos.default) == "last"


IN_PLACE = """
import torch
from symshapes import FakeMode
from symshapes.rules.registry import RULES
before = list(RULES.further)
with FakeMode():
    x = torch.zeros(3)
    x.add_(1).mul_(x).div_(2).relu_()
assert before and RULES.further == before, RULES.further
"""


def test_what_writes_and_has_no_rule_of_its_own_imports_none():
    done = subprocess.run([sys.executable, "-c", IN_PLACE], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_rules_of_what_writes_stand_with_those_of_functional_operators():
    """Or with those that are always there: none is missed since no further module is imported for it."""
    len(RULES)
    for name, rule in RULES.named.items():
        for op in aten(name):
            functional = facts_of(op).functional
            of_it = RULES.get(functional)
            if of_it is not None and f"{rules.__name__}.{rule.__module__.rpartition('.')[2]}" in rules.FURTHER:
                assert of_it.__module__ == rule.__module__, name


def test_every_rule_has_an_operator_in_some_release():
    assert len(RULES) and not RULES.further  # all that wait are imported
    lacking = [name for name in RULES.named if not aten(name)]
    assert len(lacking) < 12, lacking  # those that came or went between the releases supported
