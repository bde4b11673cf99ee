"""C++ names of kernels, buffers and sizes: their own where that is a free identifier."""

from __future__ import annotations

import functools
import re

from cpu_codegen.build import INCLUDE
from cpu_codegen.text import words
from inductor import Kernel

_KEYWORDS = frozenset(
    words(
        "alignas alignof and and_eq asm auto bitand bitor bool break case catch char class compl const constexpr const_cast"
        " continue decltype default delete do double dynamic_cast else enum explicit export extern false float for friend goto"
        " if inline int long mutable namespace new noexcept not not_eq nullptr operator or or_eq private protected public"
        " register reinterpret_cast return short signed sizeof static static_assert static_cast struct switch template this"
        " thread_local throw true try typedef typeid typename union unsigned using virtual void volatile wchar_t while xor"
        " xor_eq main"
    )
)
_LOCALS = frozenset(
    words(
        "args begin end item items row part parts per_row first last first_row last_row from lanes lane k u at p width tile"
        " status failed shared data step work row_work WIDTH"
    )
)
_NUMBERED = re.compile(r"(v|d|r|sum|unfolded|kept|turned|parts|indirect)\d+(_first)?")
"""Names that printing makes by counting."""


@functools.cache
def _reserved() -> frozenset[str]:
    """Every word that occurs in the headers or that generated code uses itself."""
    words = {word for header in INCLUDE.glob("*.h") for word in re.findall(r"\w+", header.read_text())}
    return _KEYWORDS | _LOCALS | words


def _free(name: str) -> str:
    name = re.sub(r"\W", "_", name)
    if not name or name[0].isdigit():
        name = f"_{name}"
    return f"{name}_" if name in _reserved() or _NUMBERED.fullmatch(name) else name


def entry_name(kernel: Kernel) -> str:
    """Name of a kernel's function in its shared object."""
    return _free(kernel.name)


def argument_names(kernel: Kernel) -> dict[str, str]:
    """C++ name of each argument, all different."""
    names: dict[str, str] = {}
    taken = {entry_name(kernel), f"{entry_name(kernel)}_work"}
    for arg in kernel.args:
        name = _free(arg.name)
        while name in taken:
            name += "_"
        taken.add(name)
        names[arg.name] = name
    return names
