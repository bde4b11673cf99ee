"""Symbolic shapes and fake tensors for PyTorch."""

from symshapes.fake import FakeMode, FakeTensor, reset_rules
from symshapes.rules import DataDependentError, missing_rules, register_rule

__all__ = [
    "DataDependentError",
    "FakeMode",
    "FakeTensor",
    "missing_rules",
    "register_rule",
    "reset_rules",
]
