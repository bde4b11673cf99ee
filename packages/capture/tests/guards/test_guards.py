"""Every guard kind: passes for what it was made from, fails for what differs, says so in words."""

import collections
import dataclasses
import gc
import math
import weakref

import pytest
import torch

from capture import _native, state_readers, tensor_readers
from capture.guards import (
    GlobalState,
    Guard,
    GuardKind,
    Predicate,
    ShapePredicate,
    Size,
    TensorMeta,
    build_tree,
    guard_program,
)
from capture.settings import SETTINGS
from capture.sources import Attr, Item, Local


def holder(x, y=None, *rest, **more):
    pass


X, Y = Local("x"), Local("y")


def program(*guards):
    return guard_program(build_tree(guards), holder.__code__)


def holds(guard, x, y=None):
    return program(guard).check((x, y, (), {}))


class Plain:
    pass


class Slots:
    __slots__ = ("a",)


class Eq:
    def __eq__(self, other):
        return True

    __hash__ = None


def test_type():
    guard = Guard(X, GuardKind.TYPE, bool, "file.py:3 in f")
    assert holds(guard, True) and not holds(guard, 1)
    assert guard.text == "type(x) is bool"
    assert str(guard) == "type(x) is bool  # file.py:3 in f"


@pytest.mark.parametrize("value", [Plain(), Slots(), None, 10**30, Plain, torch.relu, math, [1], Eq()])
def test_identity(value):
    guard = Guard(X, GuardKind.ID, value)
    assert holds(guard, value)
    for other in (Plain(), None if value is not None else 0, int("1" + "0" * 30), [1], Eq()):
        assert not holds(guard, other)


def test_identity_does_not_keep_alive_nor_match_the_dead():
    value = Plain()
    gone = weakref.ref(value)
    made = program(Guard(X, GuardKind.ID, value))
    assert made.check((value,))
    del value
    gc.collect()
    assert gone() is None
    assert not made.check((None,))
    assert not any(made.check((Plain(),)) for _ in range(100))  # one of them may lie where the dead one did


NAN = float("nan")
CONSTANTS = [
    0, 1, -1, 2**70, True, False, 0.0, -0.0, 1.0, NAN, -NAN, math.inf, 0j, complex(0.0, -0.0), complex(NAN, 1), "", "1", "a",
    b"a", None, ..., (), (1,), (True,), (1.0,), (1, (2, "x")), (1, (2, "y")), (0.0,), (-0.0,), (NAN,), frozenset(),
    frozenset({1}), frozenset({True}), frozenset({1, "a"}), range(3), range(4), slice(1, 2), slice(1.0, 2), slice(1, None),
    torch.float32, torch.float64, torch.device("cpu"), torch.device("cuda", 0), torch.device("cuda"), torch.Size([1]), int, float,
]  # fmt: skip


@pytest.mark.parametrize("place", range(len(CONSTANTS)), ids=lambda place: f"{place}-{type(CONSTANTS[place]).__name__}")
def test_equals(place):
    made = program(Guard(X, GuardKind.EQUALS, CONSTANTS[place]))
    assert [made.check((value,)) for value in CONSTANTS] == [at == place for at in range(len(CONSTANTS))]


def test_equals_of_new_objects():
    assert holds(Guard(X, GuardKind.EQUALS, 12345678901), int("12345678901"))
    assert holds(Guard(X, GuardKind.EQUALS, ("ab" * 30, 1.5)), ("".join(["ab"] * 30), float("1.5")))
    assert holds(Guard(X, GuardKind.EQUALS, NAN), float("nan"))
    with pytest.raises(TypeError):
        program(Guard(X, GuardKind.EQUALS, torch.ones(2)))


def test_equality_that_raises_or_lies():
    class Raises:
        def __eq__(self, other):
            raise ValueError("no")

        __hash__ = object.__hash__

    value = Raises()
    assert _native.exactly_equal(value, value)
    with pytest.raises(ValueError):
        _native.exactly_equal(value, Raises())
    assert not holds(Guard(X, GuardKind.EQUALS, value), Raises())
    assert not holds(Guard(X, GuardKind.EQUALS, 1), Eq())


def test_interrupts_pass_through():
    class Interrupts:
        @property
        def attribute(self):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        holds(Guard(Attr(X, "attribute"), GuardKind.TYPE, int), Interrupts())


def test_len_and_keys():
    assert holds(Guard(X, GuardKind.LEN, 2), [1, 2]) and not holds(Guard(X, GuardKind.LEN, 2), [1])
    assert not holds(Guard(X, GuardKind.LEN, 2), 5)
    guard = Guard(X, GuardKind.DICT_KEYS, ("a", 1))
    assert holds(guard, {"a": 0, 1: 0})
    for other in ({1: 0, "a": 0}, {"a": 0}, {"a": 0, True: 0}, {"a": 0, 1: 0, "b": 0}, ["a", 1]):
        assert not holds(guard, other)
    ordered = collections.OrderedDict(a=0)
    ordered[1] = 0
    assert holds(guard, ordered)
    ordered.move_to_end("a")
    assert not holds(guard, ordered)
    assert guard.text == "list(x) == ['a', 1]"


def test_has_and_has_not():
    assert holds(Guard(X, GuardKind.HAS_KEY, "a"), {"a": 1}) and not holds(Guard(X, GuardKind.HAS_KEY, "a"), {})
    assert holds(Guard(X, GuardKind.NO_KEY, "a"), {}) and not holds(Guard(X, GuardKind.NO_KEY, "a"), {"a": 1})
    assert not holds(Guard(X, GuardKind.NO_KEY, "a"), 5)
    none = Guard(X, GuardKind.NO_KEYS, ("a", "b"))
    assert holds(none, {}) and holds(none, {"c": 1})
    assert not holds(none, {"b": 1}) and not holds(none, 5)
    empty = Guard(X, GuardKind.EMPTY_AT, ("a", "b"))
    assert holds(empty, {"a": {}, "b": collections.OrderedDict(), "c": 1})
    for other in ({"a": {}}, {"a": {}, "b": {1: 2}}, {"a": {}, "b": []}, {"a": {}, "b": None}, {}, 5):
        assert not holds(empty, other)
    value = Plain()
    value.here = 1
    assert holds(Guard(X, GuardKind.HAS_ATTR, "here"), value)
    assert not holds(Guard(X, GuardKind.HAS_ATTR, "there"), value)
    assert holds(Guard(X, GuardKind.NO_ATTR, "there"), value)
    assert not holds(Guard(X, GuardKind.NO_ATTR, "here"), value)


def test_relations():
    a, b = Plain(), Plain()
    same = Guard(X, GuardKind.SAME_OBJECT, Y)
    distinct = Guard(X, GuardKind.DISTINCT, (Y, Item(Local("rest"), 0)))
    assert holds(same, a, a) and not holds(same, a, b)
    made = program(distinct)
    assert made.check((a, b, (1,), {}))
    assert not made.check((a, a, (1,), {})) and not made.check((a, b, (b,), {})) and not made.check((a, b, (), {}))
    assert same.text == "x is y"
    assert distinct.text == "x, y, rest[0] are different objects"


def test_predicate():
    guard = Guard(X, GuardKind.CALLABLE, Predicate(lambda value: value > 3, "{} > 3"))
    assert holds(guard, 4) and not holds(guard, 3) and not holds(guard, "text")
    assert guard.text == "x > 3"


def test_grad_mode():
    made = program(Guard(None, GuardKind.GRAD_MODE, True))
    assert made.check((1,))
    with torch.no_grad():
        assert not made.check((1,))
        assert program(Guard(None, GuardKind.GRAD_MODE, False)).check((1,))


def test_explains_the_first_failure():
    made = program(
        Guard(X, GuardKind.TYPE, list, "user.py:1"), Guard(X, GuardKind.LEN, 2), Guard(Item(X, 1), GuardKind.EQUALS, 5)
    )
    assert made.explain_failure(([0, 5],)) is None and made.failing(([0, 5],)) is None
    assert made.explain_failure(((0, 5),)) == "type(x) is list  # user.py:1"
    assert made.explain_failure(([0],)) == "len(x) == 2"
    assert made.explain_failure(([0, 6],)) == "x[1] == 5"
    assert made.texts[made.failing(([0, 6],))] == "x[1] == 5"
    missing = program(Guard(Item(X, 7), GuardKind.EQUALS, 5))
    assert missing.explain_failure(([0],)) == "x[7] == 5"  # nor is it anything else
    deeper = program(Guard(Item(Item(X, 7), 0), GuardKind.EQUALS, 5))
    assert deeper.explain_failure(([0],)) == "x[7] can be read"


def test_too_few_arguments():
    with pytest.raises(ValueError, match="read 1 arguments"):
        program(Guard(X, GuardKind.TYPE, int)).check(())


# ---- tensors ----


@pytest.fixture(params=["native", "attributes"])
def reading(request):
    """Both ways of reading tensors."""
    assert tensor_readers.configure_tensors(request.param == "native") == (request.param == "native")
    yield request.param
    tensor_readers.configure_tensors()


def variants():
    base = torch.randn(3, 4)
    return {
        "base": base,
        "sizes": torch.randn(3, 5),
        "rank": torch.randn(3, 4, 1),
        "scalar": torch.randn(()),
        "strides": torch.randn(4, 3).t(),
        "float64": base.double(),
        "int": base.long(),
        "requires_grad": torch.randn(3, 4, requires_grad=True),
        "parameter": torch.nn.Parameter(torch.randn(3, 4)),
        "meta": torch.empty(3, 4, device="meta"),
        "complex": torch.randn(3, 4, dtype=torch.complex64),
        "conjugate": torch.randn(3, 4, dtype=torch.complex64).conj(),
        "negative": torch._neg_view(base.clone()),
        "sparse": base.to_sparse(),
        "empty": torch.empty(0, 4),
    }


@pytest.mark.parametrize("name", [name for name in variants() if name not in ("conjugate", "negative")])
def test_tensor(reading, name):
    tensors = variants()
    made = program(Guard(X, GuardKind.TENSOR, TensorMeta.of(tensors[name])))
    found = {each: made.check((value,)) for each, value in tensors.items()}
    assert found == {each: each == name for each in tensors}
    again = tensors[name].detach().clone().requires_grad_(tensors[name].requires_grad)
    if type(again) is type(tensors[name]) and again.stride() == tensors[name].stride():
        assert made.check((again,))
    assert not made.check((None,)) and not made.check((3,))


def test_tensor_subclass(reading):
    class Sub(torch.Tensor):
        pass

    base = torch.randn(3, 4)
    sub = base.as_subclass(Sub)
    assert not holds(Guard(X, GuardKind.TENSOR, TensorMeta.of(base)), sub)
    assert holds(Guard(X, GuardKind.TENSOR, TensorMeta.of(sub)), sub)


def test_dynamic_dimensions(reading):
    base = torch.randn(3, 4)
    made = program(Guard(X, GuardKind.TENSOR, TensorMeta.of(base, sizes=(None, 4), strides=(4, 1))))
    assert made.check((base,)) and made.check((torch.randn(9, 4),))
    assert not made.check((torch.randn(9, 5),))
    made = program(Guard(X, GuardKind.TENSOR, TensorMeta.of(base, sizes=(None, None), strides=(None, 1))))
    assert made.check((torch.randn(9, 5),)) and not made.check((torch.randn(9, 5).t(),))
    assert "sizes=(*, *) strides=(*, 1)" in TensorMeta.of(base, sizes=(None, None), strides=(None, 1)).__str__()


def test_inference_tensors_differ():
    base = torch.randn(3)
    with torch.inference_mode():
        inference = torch.randn(3)
    if TensorMeta.of(base).keys is not None:
        assert not holds(Guard(X, GuardKind.TENSOR, TensorMeta.of(base)), inference)
        assert holds(Guard(X, GuardKind.TENSOR, TensorMeta.of(inference)), inference)


def test_what_was_read_by_attributes_is_read_natively_again():
    try:
        tensor_readers.configure_tensors(False)
        assert tensor_readers.tensor_codes(torch.float16, torch.device("cpu")) is None
    finally:
        tensor_readers.configure_tensors()
    assert tensor_readers.tensor_codes(torch.float16, torch.device("cpu")) is not None


def test_tensors_of_unknown_keys(reading):
    """What was made from metadata alone refuses conjugate and negative tensors."""
    tensors = variants()
    for name in ("base", "complex"):
        meta = TensorMeta.of(tensors[name])
        blind = TensorMeta(
            meta.python_type, meta.dtype, meta.device, meta.layout, meta.requires_grad, meta.sizes, meta.strides
        )
        made = program(Guard(X, GuardKind.TENSOR, blind))
        assert made.check((tensors[name],))
        assert not made.check((tensors["conjugate"],)) and not made.check((tensors["negative"],))


def test_reads_natively_here():
    """On the supported versions of torch the fallbacks are not in use."""
    assert tensor_readers.configure_tensors()
    assert _native.tensor_keys(torch.ones(1)) is not None
    assert set(_NATIVE_STATE) < set(state_readers.native_settings) and state_readers.native_grad_mode
    assert tensor_readers.native_failures == {}


_NATIVE_STATE = [name for name, row in SETTINGS.items() if row.native is not None and not row.apart]
_ALWAYS_FALSE = "_ZN3c1013InferenceMode10is_enabledEv"  # outside of inference mode, and of the same signature


@pytest.mark.parametrize("name", [*_NATIVE_STATE, "grad mode"])
@pytest.mark.parametrize("symbol", ["_ZN3c108GradMode10is_enabledEv", _ALWAYS_FALSE, "_ZN2at9no_suchEv"])
def test_a_wrong_reader_of_a_setting_is_not_used(monkeypatch, name, symbol):
    setting = SETTINGS[name]
    if symbol == setting.native[0]:
        pytest.skip("it is the right one")
    wrong = dataclasses.replace(setting, native=(symbol, 0, setting.native[2]))
    monkeypatch.setitem(SETTINGS, name, wrong)
    before = [each.read() for each in SETTINGS.values()]
    try:
        state_readers.configure_state()
        assert set(tensor_readers.native_failures) == {name}
        assert name not in state_readers.native_settings and state_readers.native_grad_mode is (name != "grad mode")
        assert [each.read() for each in SETTINGS.values()] == before
        guard = Guard(None, GuardKind.GLOBAL_STATE, GlobalState.now())
        grad = Guard(None, GuardKind.GRAD_MODE, True)
        assert program(guard, grad).check((1, 2, (), {}))
        now = wrong.read()
        for change in wrong.changes:
            with change():
                values = {each: row.read() for each, row in SETTINGS.items()}
                if wrong.read() != now and wrong.matters(values):
                    assert not program(guard, grad).check((1, 2, (), {}))
    finally:
        monkeypatch.undo()
        state_readers.configure_state()
    assert tensor_readers.native_failures == {}


@pytest.mark.parametrize("name", list(tensor_readers.TENSOR_READERS))
def test_a_wrong_reader_of_tensors_is_not_used(monkeypatch, name):
    reader = tensor_readers.TENSOR_READERS[name]
    # Another of the same signature, or for lack of one something that is not there.
    twins = {"dim": "storage_offset", "storage_offset": "dim", "sizes": "strides", "strides": "sizes"}
    twins |= {"dtype": "layout", "layout": "device_type", "device_type": "device_index", "device_index": "dtype"}
    symbol = tensor_readers.TENSOR_READERS[twins[name]].symbol if name in twins else "_ZNK3c1010TensorImpl7no_suchEv"
    monkeypatch.setitem(tensor_readers.TENSOR_READERS, name, dataclasses.replace(reader, symbol=symbol))
    try:
        assert not tensor_readers.configure_tensors()
        assert set(tensor_readers.native_failures) == {name}
        x = torch.randn(3, 4)
        guard = Guard(X, GuardKind.TENSOR, TensorMeta.of(x))
        assert holds(guard, x) and not holds(guard, x.t()) and not holds(guard, x.double())
    finally:
        monkeypatch.undo()
        assert tensor_readers.configure_tensors()
    assert tensor_readers.native_failures == {}


# ---- sizes ----


def test_shapes(reading):
    inputs = (Size(X, "size", 0), Size(Y, "stride", 1), Size(X, "offset"), Size(Item(Local("rest"), 0), "value"))
    predicate = ShapePredicate(inputs, ("a", "b", "c", "d"), "a * 2 == d and b == 1 and c >= 0")
    made = program(Guard(None, GuardKind.SHAPE, predicate))
    x, y = torch.randn(3, 4), torch.randn(5, 6)
    assert made.check((x, y, (6,), {}))
    assert not made.check((x, y, (7,), {})) and not made.check((x, y.t(), (6,), {}))
    assert not made.check((x, y, ("6",), {})) and not made.check((x, torch.randn(3), (6,), {}))
    assert not made.check((1, y, (6,), {}))
    assert not made.check((x, y, (2**80,), {}))
    assert [str(each) for each in inputs] == ["x.size(0)", "y.stride(1)", "x.storage_offset()", "rest[0]"]


def test_shape_in_python():
    predicate = ShapePredicate((Size(X),), ("s",), "check(s)", {"check": lambda s: s % 2 == 0}, "x.size(0) is even")
    guard = Guard(None, GuardKind.SHAPE, predicate)
    assert holds(guard, torch.ones(4)) and not holds(guard, torch.ones(3))
    assert guard.text == "x.size(0) is even"


# ---- global state ----


@pytest.fixture(params=[True, False], ids=["native", "python"])
def state(request):
    state_readers.configure_state(request.param)
    yield
    state_readers.configure_state()


def deterministic(**options):
    class Change:
        def __enter__(self):
            torch.use_deterministic_algorithms(True, **options)

        def __exit__(self, *_):
            torch.use_deterministic_algorithms(False)

    return Change()


def default_dtype():
    class Change:
        def __enter__(self):
            torch.set_default_dtype(torch.float64)

        def __exit__(self, *_):
            torch.set_default_dtype(torch.float32)

    return Change()


def dispatch_mode():
    from torch.utils._python_dispatch import TorchDispatchMode

    class Mode(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            return func(*args, **(kwargs or {}))

    return Mode()


CHANGES = {
    "autocast": lambda: torch.autocast("cpu", torch.bfloat16),
    "autocast half": lambda: torch.autocast("cpu", torch.float16),
    "autocast uncached": lambda: torch.autocast("cpu", torch.bfloat16, cache_enabled=False),
    "inference": torch.inference_mode,
    "deterministic": deterministic,
    "deterministic warnings": lambda: deterministic(warn_only=True),
    "default dtype": default_dtype,
    "function mode": lambda: torch.overrides.TorchFunctionMode(),
    "default device": lambda: torch.device("meta"),
    "no torch function": lambda: torch._C.DisableTorchFunctionSubclass(),
    "dispatch mode": dispatch_mode,
}


@pytest.mark.parametrize("name", CHANGES)
def test_global_state(state, name):
    plain = program(Guard(None, GuardKind.GLOBAL_STATE, GlobalState.now()))
    assert plain.check((1,))
    with CHANGES[name]():
        assert not plain.check((1,))
        now = GlobalState.now()
        changed = program(Guard(None, GuardKind.GLOBAL_STATE, now))
        assert changed.check((1,))
        assert now.differences(GlobalState.now()) == []
    assert plain.check((1,)) and not changed.check((1,))
    assert GlobalState.now().differences(now)
    for other, change in CHANGES.items():
        if other != name and {other, name} != {"function mode", "default device"}:
            with change():
                assert not changed.check((1,))


def test_state_in_another_thread(state):
    import threading

    made = program(Guard(None, GuardKind.GLOBAL_STATE, GlobalState.now()))
    found = []

    def run():
        found.append(made.check((1,)))
        with torch.inference_mode():
            found.append(made.check((1,)))

    thread = threading.Thread(target=run)
    with torch.autocast("cpu"):
        thread.start()
        thread.join()
        found.append(made.check((1,)))
    assert found == [True, False, False]
