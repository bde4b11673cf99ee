"""The Triton device backend. What is named here is imported when it is asked for."""

from typing import TYPE_CHECKING

from symshapes import lazy_package as _lazy_package

if TYPE_CHECKING:
    from inductor.triton.ahead import compile_ahead
    from inductor.triton.backend import TritonBackend

__all__ = ["TritonBackend", "compile_ahead"]

_lazy_package(__name__, {"inductor.triton.backend": ("TritonBackend",), "inductor.triton.ahead": ("compile_ahead",)})
