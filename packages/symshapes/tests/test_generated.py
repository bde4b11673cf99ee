"""Generated Python: known by its code objects, in `linecache` while it lives, no cycle through its namespace."""

import copy
import gc
import linecache
import pickle
import traceback
import weakref
from types import CodeType

import pytest
import torch
from torch import fx

from symshapes import (
    LazyGraphModule,
    build_python,
    is_generated,
    is_own_file,
    mark_generated,
    on_generated,
    reset_generated,
)
from symshapes.policy import __file__ as own_file

TEXT = "def entry(x):\n    def inner():\n        return 1 // x\n    return inner()\n"


def _inner(function):
    return next(c for c in function.__code__.co_consts if isinstance(c, CodeType))


def test_marks_every_code_object_by_identity():
    entry = build_python(TEXT, {}, entry="entry", title="test")
    assert is_generated(entry.__code__) and is_generated(_inner(entry))
    namespace = {}
    exec(compile(TEXT, entry.__code__.co_filename, "exec", dont_inherit=True), namespace)
    assert namespace["entry"].__code__ == entry.__code__
    assert not is_generated(namespace["entry"].__code__), "equal content does not make it ours"


def test_lines_are_shown_while_the_code_lives():
    entry = build_python(TEXT, {}, entry="entry", title="test")
    name = entry.__code__.co_filename
    with pytest.raises(ZeroDivisionError) as caught:
        entry(0)
    assert "return 1 // x" in "".join(traceback.format_tb(caught.value.__traceback__))
    assert name in linecache.cache
    del caught
    gone = weakref.ref(entry)
    gc.disable()
    try:
        del entry
        assert gone() is None, "only a garbage collection frees it"
        assert name not in linecache.cache
    finally:
        gc.enable()


def test_lines_of_a_class_outlive_its_body():
    made = build_python("class A:\n    def f(self):\n        return 1 // 0\n", {}, entry="A", title="test")
    gc.collect()
    assert made.f.__code__.co_filename in linecache.cache


def test_two_texts_of_one_path():
    first = build_python(TEXT, {}, entry="entry", title="test", path="/nowhere/x.py")
    second = build_python(TEXT, {}, entry="entry", title="test", path="/nowhere/x.py")
    del first
    assert "/nowhere/x.py" in linecache.cache
    del second
    assert "/nowhere/x.py" not in linecache.cache


def test_reset_takes_all_lines():
    entry = build_python(TEXT, {}, entry="entry", title="test")
    reset_generated()
    assert entry.__code__.co_filename not in linecache.cache and is_generated(entry.__code__)


def test_listeners_hear_of_all():
    before = build_python(TEXT, {}, entry="entry", title="test")
    heard = []
    on_generated(heard.append)
    after = build_python(TEXT, {}, entry="entry", title="test")
    for function in (before, after):
        assert any(code is function.__code__ for code in heard)
        assert any(code is _inner(function) for code in heard)
    count = len(heard)
    mark_generated(after.__code__)
    assert len(heard) == count
    from symshapes import generated

    generated._listeners.remove(heard.append)


def test_own_files():
    assert is_own_file(own_file)
    assert not is_own_file(__file__)


def _module():
    graph = fx.Graph()
    x = graph.placeholder("x")
    graph.output((graph.call_function(torch.add, (x, graph.get_attr("weight"))),))
    return LazyGraphModule({"weight": torch.ones(2)}, graph, "Lazy")


def test_graph_module_is_generated_when_looked_at():
    module = _module()
    assert "forward" in vars(type(module)) and not hasattr(type(module).forward, "__code__")
    forward = module.forward
    assert is_generated(forward.__func__.__code__)
    x = torch.zeros(2)
    assert forward(x)[0].tolist() == [1, 1] == module(x)[0].tolist()
    assert "torch.add" in module.code and "torch.add" in str(module)
    next(n for n in module.graph.nodes if n.op == "call_function").target = torch.sub
    module.recompile()
    assert module(x)[0].tolist() == [-1, -1]
    assert "torch.sub" in module.code


@pytest.mark.parametrize("twin", [copy.deepcopy, copy.copy, lambda m: pickle.loads(pickle.dumps(m))])
def test_graph_module_copies(twin):
    module = _module()
    made = twin(module)
    assert made(torch.zeros(2))[0].tolist() == [1, 1]


def test_a_graph_calls_what_it_was_made_of_not_what_its_name_stands_for_now(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = fx.Graph()
    x = graph.placeholder("x")
    graph.output(graph.call_function(torch.nn.functional.relu, (graph.call_function(torch.sin, (x,)),)))
    module = LazyGraphModule(torch.nn.Module(), graph)
    given = torch.randn(3)
    expected = torch.nn.functional.relu(torch.sin(given))
    monkeypatch.setattr(torch.nn.functional, "relu", torch.cos)
    monkeypatch.setattr(torch, "sin", torch.cos)
    assert torch.equal(module(given), expected)
    assert "torch.nn.functional.relu" in module.code
