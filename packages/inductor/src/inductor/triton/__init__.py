"""The Triton device backend; importing this imports triton."""

from inductor.triton.backend import TritonBackend, compile_ahead

__all__ = ["TritonBackend", "compile_ahead"]
