"""Fake tensors: `FakeMode`, `FakeTensor`, conversion of real tensors, and the fallback to torch's meta kernels."""

from symshapes.fake.composites import taking_symbols
from symshapes.fake.mode import FakeMode
from symshapes.fake.tensor import FakeTensor

__all__ = ["FakeMode", "FakeTensor", "taking_symbols"]
