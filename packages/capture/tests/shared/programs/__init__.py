"""Small programs over tensors and plain Python, run eagerly and captured by ``test_programs``.

Each of ``PROGRAMS`` is a function of a tensor; everything it returns, raises or changes is compared.
"""

from . import (
    breaks,
    checkpoints,
    classes,
    containers,
    exceptions,
    functions,
    iteration,
    language,
    tensors,
    texts,
    transforms,
)
from .registry import PROGRAMS

__all__ = [
    "PROGRAMS",
    "breaks",
    "checkpoints",
    "classes",
    "containers",
    "exceptions",
    "functions",
    "iteration",
    "language",
    "tensors",
    "texts",
    "transforms",
]
