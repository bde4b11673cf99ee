"""How native callables read their arguments, the addresses of tensors' data first of all: the head of their C files, and the facts of this torch that it is
told."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch

from inductor._torch import data_ptr_function, tensor_offset
from inductor.device import Kernel, KernelArg


@functools.cache
def address_header() -> str:
    """The text of `addresses.h`, with which the C file of an extension begins whose functions take tensors: it includes
    `Python.h` and has `address_of(tensor, &address)`, `read_word(value, kind, &word)`, `set_address_facts(tuple)` and
    the head of callables."""
    return Path(__file__).with_name("addresses.h").read_text()


def argument_kinds(kernel: Kernel) -> bytes:
    """What each argument of a kernel is, in order, as `read_word` of `address_header` takes it: 0 a buffer, 1 an integer, 2 a
    float."""
    return kinds_of(kernel.args)


def kinds_of(args: Iterable[KernelArg]) -> bytes:
    """As `argument_kinds`, of the arguments themselves."""
    return bytes(0 if arg.role != "size" else 2 if arg.dtype.is_floating_point else 1 for arg in args)


def address_facts() -> tuple[Any, Any, int, int]:
    """What `set_address_facts` of `address_header` is called with."""
    function, offset = data_ptr_function(), tensor_offset()
    usable = function is not None and offset is not None
    return torch.Tensor, torch.nn.Parameter, function if usable else 0, offset if usable else 0  # type: ignore[return-value]
