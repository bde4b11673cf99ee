"""Reads where many tensors lie in one native call: loads `places.c`.

Flows in: positions of tensors in a list. Flows out: what reads of such a list a value that is equal as long as they stay there.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

from triton.runtime.build import compile_module_from_src

from inductor._torch import storage_offset_function
from inductor.addresses import address_facts, address_header

SOURCE = Path(__file__).with_name("places.c")


@functools.cache
def _native() -> Any:
    """The native part. Triton compiles it as it does its own, which this installation must be able to."""
    module = compile_module_from_src(address_header() + SOURCE.read_text(), "places")
    module.configure(address_facts(), storage_offset_function() or 0)
    return module


def reader(at: tuple[int, ...]) -> Callable[[list[Any]], bytes]:
    """What reads addresses and storage offsets of the tensors at these positions of a list."""
    found: Callable[[list[Any]], bytes] = _native().places(at)
    return found
