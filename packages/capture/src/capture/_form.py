"""Finds, at import, where in torch's C++ object of a tensor its metadata lies, and proves it by tensors that differ in one thing.

In: how to read a tensor's address and to ask torch's C function for a device index. Out: the places (`FormPlaces`), or none: then
each tensor is asked through torch's C functions. Nothing is read beyond what has been found.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import NamedTuple

import torch

_DIMS = 5  # as many sizes, then strides, lie in the object itself
_REST = 4  # words after them: storage offset, number of elements, dtype with device and flags, dispatch keys
_NUMBERS = 1 + 2 * _DIMS  # the rank before them
_WORD = 8
# Where what autograd knows of a tensor is looked at for a flag; it is larger.
_FLAGS = range(8, 176)


class FormPlaces(NamedTuple):
    """Offsets in bytes, and the word by which what autograd knows of a tensor that is no view begins; all 0 if any is not known."""

    handle: int = 0
    autograd: int = 0
    rank: int = 0
    requires_grad: int = 0
    grad_fn: int = 0
    plain: int = 0


def find_places(
    handle: int, keys: int, address: Callable[[torch.Tensor], int], device_index: Callable[[int], int | None]
) -> FormPlaces:
    """The places, given where in the Python object the handle and in the C++ object the dispatch keys lie.

    ``device_index(impl)`` is torch's answer for the C++ object at an address; None if it has none.
    """
    if not handle or not keys:
        return FormPlaces()
    rank = _rank(address, keys)
    if not rank or not _rest_tells(address, rank, keys, device_index):
        return FormPlaces()
    autograd = _autograd(address, keys)
    flag = autograd and _flag(address, autograd)
    function = flag and _function(address, autograd, flag)
    if not function:
        return FormPlaces()
    leaf = torch.zeros(3, requires_grad=True)
    plain = _word(_word(address(leaf) + autograd))
    places = FormPlaces(handle, autograd, rank, flag, function, plain)
    return places if _gradients_tell(address, places) else FormPlaces()


def _bytes(place: int, count: int) -> bytes:
    return ctypes.string_at(place, count)


def _words(place: int, count: int) -> tuple[int, ...]:
    return tuple(ctypes.c_int64.from_address(place + _WORD * i).value for i in range(count))


def _word(place: int) -> int:
    return _words(place, 1)[0]


def _rank(address: Callable[[torch.Tensor], int], keys: int) -> int:
    """Where the rank lies, before sizes and strides as tensors of all ranks have them, with just the rest up to the keys."""
    place = keys + _WORD - _WORD * (_NUMBERS + _REST)
    if place <= 0:
        return 0
    for rank in range(_DIMS + 1):
        sizes, strides = tuple(range(3, 3 + rank)), tuple(range(20, 20 - 2 * rank, -2))
        tensor = torch.zeros(400).as_strided(sizes, strides)
        numbers = _words(address(tensor) + place, _NUMBERS)
        if numbers[0] != rank or numbers[1 : 1 + rank] != sizes or numbers[1 + _DIMS :][:rank] != strides:
            return 0
    return place


def _rest_tells(
    address: Callable[[torch.Tensor], int], rank: int, keys: int, device_index: Callable[[int], int | None]
) -> bool:
    """Whether the rest of one tensor is other bytes for each storage offset, dtype and kind of tensor that it becomes.

    Other devices and layouts have other dispatch keys. What pads the flags differs between tensors that are alike.
    """
    start = rank + _WORD * _NUMBERS
    tensor = torch.zeros(3)

    def rest(data: torch.Tensor) -> bytes:
        tensor.data = data
        return _bytes(address(tensor) + start, _WORD * _REST)

    negative = torch.ops.aten._neg_view.default
    base = torch.zeros(64, dtype=torch.complex64)
    kinds = [base[offset : offset + 3] for offset in (0, 1, 2, 8, 61)]
    kinds += [torch.zeros(3, dtype=dtype) for dtype in _DTYPES]
    kinds += [kinds[0].conj(), negative(kinds[0]), negative(kinds[0].conj())]
    forms = [rest(kind) for kind in kinds]
    told = len(set(forms)) == len(kinds) and forms == [rest(kind) for kind in kinds]
    return told and _index_is_told(address(tensor), start, keys, device_index)


_DTYPES = (
    torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64,
    torch.bool, torch.complex128,
)  # fmt: skip


def _index_is_told(impl: int, start: int, keys: int, device_index: Callable[[int], int | None]) -> bool:
    """Whether the rest holds the device's index: of a copy, one byte of -1 is another index when it is changed."""
    copy = _bytes(impl, keys + _WORD)

    def index_with(place: int) -> int | None:
        changed = (ctypes.c_char * len(copy)).from_buffer_copy(copy)
        changed[place] = b"\3"
        return device_index(ctypes.addressof(changed))

    return device_index(impl) == -1 and [index_with(i) for i in range(start, keys) if copy[i] == 0xFF].count(3) == 1


def _autograd(address: Callable[[torch.Tensor], int], keys: int) -> int:
    """Where the pointer to what autograd knows lies: the one word that asking for a gradient changes, from nothing."""
    tensor = torch.zeros(3)
    place, count = address(tensor) + _WORD, keys // _WORD
    before = _words(place, count)
    tensor.requires_grad_()
    changed = [i for i, word in enumerate(_words(place, count)) if word != before[i]]
    return _WORD * (1 + changed[0]) if len(changed) == 1 and before[changed[0]] == 0 else 0


def _flag(address: Callable[[torch.Tensor], int], autograd: int) -> int:
    """Where, in what autograd knows, the byte lies that follows `requires_grad`."""
    tensor = torch.zeros(3, requires_grad=True)
    known = _word(address(tensor) + autograd)
    seen = []
    for wanted in (True, False, True, False):
        tensor.requires_grad_(wanted)
        seen.append((wanted, _bytes(known + _FLAGS.start, len(_FLAGS))))
    following = (place for at, place in enumerate(_FLAGS) if all(found[at] == wanted for wanted, found in seen))
    return next(following, 0)


def _function(address: Callable[[torch.Tensor], int], autograd: int, flag: int) -> int:
    """Where, before that byte, the pointer lies that an operation on the tensor sets and `detach_` takes away."""
    factor = torch.ones(3, requires_grad=True)
    tensor = torch.zeros(3).requires_grad_().requires_grad_(False)
    known = _word(address(tensor) + autograd)
    for place in range(_WORD, flag - _WORD, _WORD):
        before = _word(known + place)
        tensor.mul_(factor)
        within = _word(known + place)
        tensor.detach_()
        if before == 0 and within != 0 and _word(known + place) == 0:
            return place
    return 0


def _gradients_tell(address: Callable[[torch.Tensor], int], places: FormPlaces) -> bool:
    """Whether flag and pointer say of each kind of tensor whether it requires a gradient; views, which ask their base, are known."""
    leaf, plain, changed = torch.zeros(3, requires_grad=True), torch.zeros(3), torch.zeros(3)
    views = [leaf[1:], plain[1:], changed[1:]]
    kinds = [leaf, plain, leaf * 2, leaf.detach(), changed.mul_(leaf), torch.nn.Parameter(plain)]
    kinds += [torch.nn.Parameter(plain, requires_grad=False), torch.zeros(3).requires_grad_().requires_grad_(False)]

    def known(tensor: torch.Tensor) -> int:
        return _word(address(tensor) + places.autograd)

    def told(tensor: torch.Tensor) -> bool:
        place = known(tensor)
        return bool(place and (_bytes(place + places.requires_grad, 1) != b"\0" or _word(place + places.grad_fn)))

    are_plain = all(not known(tensor) or _word(known(tensor)) == places.plain for tensor in kinds)
    are_views = all(known(view) and _word(known(view)) != places.plain for view in views)
    return are_plain and are_views and all(told(tensor) == tensor.requires_grad for tensor in kinds)
