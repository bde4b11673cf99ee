"""The metadata of tensors that live on: every kind of change is noticed where it lies, and where that is not known."""

import pytest
import torch

from capture import _native, tensor_readers
from capture._form import FormPlaces, find_places
from capture.guards import Guard, GuardKind, TensorMeta, build_tree, guard_program
from capture.sources import Attr, Const, Item


def holder(x):
    pass


class Holder:
    pass


class Sub(torch.Tensor):
    pass


def watching(tensor):
    """An object that holds the tensor, and a program that watches the tensor's metadata."""
    held = Holder()
    held.t = tensor
    guard = Guard(Attr(Const(held), "t", via_dict=True), GuardKind.TENSOR, TensorMeta.of(tensor))
    return held, guard_program(build_tree([guard]), holder.__code__)


@pytest.fixture(params=["bytes", "functions"])
def reading(request):
    """Both ways of watching tensors."""
    if request.param == "functions":
        _native.configure_forms(*FormPlaces())
    assert _native.form_is_known(torch.ones(2)) == (request.param == "bytes")
    yield request.param
    tensor_readers.configure_tensors()


def requires_by_operation(t):
    t.mul_(torch.ones(2, 3, dtype=t.dtype, requires_grad=True))


def other_data(make):
    def change(t):
        t.data = make(t)

    return change


def other_class(t):
    t.__class__ = Sub


# How a tensor of two by three, float32, is made to be another without being another object.
CHANGES = {
    "resize": lambda t: t.resize_(2, 4),
    "resize by rank": lambda t: t.resize_(2, 3, 1),
    "resize to none": lambda t: t.resize_(0),
    "transpose": lambda t: t.t_(),
    "strides": lambda t: t.as_strided_((2, 3), (1, 2)),
    "sizes": lambda t: t.as_strided_((2, 2), (3, 1)),
    "squeeze": lambda t: t.unsqueeze_(0),
    "set": lambda t: t.set_(torch.ones(3, 2)),
    "dtype": other_data(lambda t: t.double()),
    "dtype of a size": other_data(lambda t: t.to(torch.int32)),
    "data's strides": other_data(lambda t: torch.ones(3, 2).t()),
    "data's sizes": other_data(lambda t: torch.ones(4)),
    "negative": other_data(torch._neg_view),
    "requires grad": lambda t: t.requires_grad_(),
    "requires grad by an operation": requires_by_operation,
    "class": other_class,
    "device": lambda t: torch.utils.swap_tensors(t, torch.ones(2, 3, device="meta")),
    "swapped": lambda t: torch.utils.swap_tensors(t, torch.ones(2, 3, dtype=torch.float64)),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_every_change_is_noticed(reading, change):
    held, made = watching(torch.ones(2, 3))
    assert all(made.check((0,)) for _ in range(3)) and made.verified == 1
    change(held.t)
    assert not made.check((0,)) and not made.check((0,))
    held.t = torch.ones(2, 3)
    assert made.check((0,)) and made.check((0,))


def test_what_autograd_knew_before(reading):
    """A flag or an operation that comes or goes where there was one before."""
    held, made = watching(torch.ones(2, 3).requires_grad_().requires_grad_(False))
    for change, undo in (
        (lambda t: t.requires_grad_(), lambda t: t.requires_grad_(False)),
        (requires_by_operation, lambda t: t.detach_()),
    ):
        assert made.check((0,)) and made.check((0,))
        change(held.t)
        assert not made.check((0,))
        undo(held.t)
    assert made.check((0,))
    held, made = watching(torch.nn.Parameter(torch.ones(2, 3)))
    assert made.check((0,)) and made.check((0,))
    held.t.requires_grad_(False)
    assert not made.check((0,))


@pytest.mark.parametrize(("sizes", "strides"), [((3, 2), (7, 2)), ((2, 3), (9, 2)), ((2, 3), (7, 3))])
def test_sizes_and_strides_alone(reading, sizes, strides):
    """As many elements as before, and no more contiguous."""
    held, made = watching(torch.ones(60).clone().as_strided_((2, 3), (7, 2)))
    assert made.check((0,)) and made.check((0,)) and made.verified == 1
    held.t.as_strided_(sizes, strides)
    assert not made.check((0,))


def test_conjugate(reading):
    held, made = watching(torch.ones(2, 3, dtype=torch.complex64))
    assert made.check((0,)) and made.check((0,))
    held.t.data = held.t.conj()
    assert not made.check((0,))


def test_a_view_follows_its_base(reading):
    """Whether a view requires a gradient is not said where it lies."""
    base = torch.ones(4)
    held, made = watching(base[1:])
    assert not _native.form_is_known(held.t)
    assert made.check((0,)) and made.check((0,)) and made.verified == 1
    base.mul_(torch.ones(4, requires_grad=True))
    assert not made.check((0,)) and held.t.requires_grad


def test_many_dimensions(reading):
    held, made = watching(torch.ones(1, 2, 1, 1, 2, 3))
    assert not _native.form_is_known(held.t)
    assert made.check((0,)) and made.check((0,)) and made.verified == 1
    held.t.transpose_(0, 1)
    assert not made.check((0,))


def test_inference_tensors(reading):
    with torch.inference_mode():
        held, made = watching(torch.ones(2, 3))
    assert made.check((0,)) and made.check((0,)) and made.verified == 1
    held.t = torch.ones(2, 3)
    assert not made.check((0,))


def test_what_a_guard_does_not_ask_about_may_change(reading):
    """Another storage offset, other data, a gradient, a version: the new bytes are taken, also again and again."""
    storage = torch.arange(60.0)
    held, made = watching(storage[:6].view(2, 3).detach().clone())
    other, made_other = watching(torch.ones(2, 3))
    for offset in [*range(20), *range(20)]:
        held.t.data = storage[offset : offset + 6].view(2, 3)
        assert made.check((0,)) and made.check((0,)) and made_other.check((0,))
        held.t.add_(1)
        assert made.check((0,)) and made.verified == 1
    held.t.resize_(3, 2)
    assert not made.check((0,)) and made_other.check((0,)) and other.t.shape == (2, 3)


def test_tensors_alike_are_told_apart(reading):
    held = Holder()
    held.items = [torch.ones(2, 3) for _ in range(4)]
    guards = [
        Guard(Item(Attr(Const(held), "items", via_dict=True), i), GuardKind.TENSOR, TensorMeta.of(t))
        for i, t in enumerate(held.items)
    ]
    made = guard_program(build_tree(guards), holder.__code__)
    assert made.check((0,)) and made.check((0,))
    held.items.extend(range(100))  # elsewhere in memory
    assert made.check((0,)) and made.check((0,)) and made.verified == 1
    for t in held.items[:4]:
        t.t_()
        assert not made.check((0,))
        t.t_()
        assert made.check((0,))


# ---- finding where it lies ----


def places(*, keys=0, index=None):
    handle = tensor_readers._handle_offset(tensor_readers._samples())
    found, _ = tensor_readers._keys_offset()
    given = {-1: -1}

    def index_of(impl):
        return given.pop(-1, 3) if index is None else index

    return find_places(handle, found + keys, lambda t: t._cdata, index_of)


def test_places_are_found_here():
    assert _native.form_is_known(torch.ones(2)) and _native.form_is_known(torch.nn.Parameter(torch.ones(1, 1, 1, 1, 1)))
    assert all(places())


@pytest.mark.parametrize("wrong", [{"keys": -8}, {"keys": -16}, {"index": -1}, {"index": None, "keys": -24}])
def test_nothing_is_taken_for_a_place_that_does_not_tell(wrong):
    assert places(**wrong) == FormPlaces()


def test_import_under_anything():
    """What is in force at import does not matter."""
    try:
        with torch.device("meta"), torch.inference_mode():
            assert tensor_readers.configure_tensors()
        with torch.no_grad():
            assert tensor_readers.configure_tensors()
        assert tensor_readers.native_failures == {} and _native.form_is_known(torch.ones(2))
    finally:
        tensor_readers.configure_tensors()
