"""A device backend for `inductor`: kernels for the CPU, written in NumPy."""

from inductor_numpy.backend import NumpyBackend

__all__ = ["NumpyBackend"]
