"""Sources as values: made, hashed and compared by their fields, in C."""

import copy
import dataclasses
import gc
import pickle
import weakref

import pytest

from capture import _native
from capture.sources import Attr, Const, Item, Local, ModuleGlobal, ReadFrom


class Picky:
    """Of no equality and no hash."""

    __hash__ = None

    def __eq__(self, other):
        raise AssertionError("compared")


def test_equal_sources_are_equal_values():
    assert Attr(Local("x"), "y") == Attr(base=Local("x"), attr="y", via_dict=False)
    assert hash(Attr(Local("x"), "y")) == hash(Attr(Local("x"), "y"))
    different = [
        Attr(Local("x"), "y"),
        Attr(Local("x"), "y", via_dict=True),
        Attr(Local("x"), "z"),
        Item(Local("x"), "y"),
    ]
    assert len({*different, *map(copy.copy, different)}) == len(different)
    assert Attr(Local("x"), "y") != "x.y"


def test_what_does_not_count_and_what_counts_by_identity():
    assert Local("args", ("a",)) == Local("args")
    assert hash(Local("args", ("a",))) == hash(Local("args"))
    first, second = Picky(), Picky()
    assert Const(first, "one") == Const(first, "other")
    assert Const(first) != Const(second)
    assert len({Const(first), Const(first, "other"), Const(second)}) == 2
    assert ModuleGlobal("m", "v", {}) != ModuleGlobal("m", "v", {})


def test_roots():
    root = Local("x")
    source = root
    for i in range(5000):
        source = Item(source, i)
    assert source.root is root
    assert Attr(source, "y").root is root
    assert root.root is root
    namespace = {}
    assert ModuleGlobal("m", "v", namespace).root == Const(namespace)


def test_how_they_are_made():
    for wrong in (
        lambda: Attr(Local("x")),
        lambda: Attr(Local("x"), "y", False, 4),
        lambda: Attr(Local("x"), "y", other=1),
        lambda: Attr(Local("x"), "y", attr="y"),
        lambda: _native.lay_out(Picky, ()),
        lambda: _native.lay_out(ReadFrom, (("missing", 0, ()),)),
    ):
        with pytest.raises(TypeError):
            wrong()
    with pytest.raises(dataclasses.FrozenInstanceError):
        Local("x").local = "y"
    assert dataclasses.replace(Attr(Local("x"), "y"), attr="z") == Attr(Local("x"), "z")
    assert pickle.loads(pickle.dumps(Attr(Local("x"), "y"))) == Attr(Local("x"), "y")


def test_hashes_that_cannot_be():
    with pytest.raises(TypeError, match="unhashable"):
        hash(Item(Local("x"), []))
    deep = Local("x")
    for i in range(200_000):
        deep = Item(deep, i)
    with pytest.raises(RecursionError):
        hash(deep)


def test_cycles_are_collected():
    held = Picky()
    held.source = Attr(Const(held), "y")
    held.source.root
    gone = weakref.ref(held)
    del held
    gc.collect()
    assert gone() is None
