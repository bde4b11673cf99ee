"""Small programs over tensors and plain Python, run eagerly and captured by ``test_programs``.

Each of ``PROGRAMS`` is a function of a tensor; everything it returns, raises or changes is compared.
"""

from . import (
    breaks,
    builtin_functions,
    class_features,
    classes,
    containers,
    exceptions,
    functions,
    iteration,
    language,
    mappings,
    matching,
    numbers_and_texts,
    operators_by_method,
    set_methods,
    tensors,
    texts,
)
from .registry import PROGRAMS

__all__ = [
    "PROGRAMS",
    "breaks",
    "builtin_functions",
    "class_features",
    "classes",
    "containers",
    "exceptions",
    "functions",
    "iteration",
    "language",
    "mappings",
    "matching",
    "numbers_and_texts",
    "operators_by_method",
    "set_methods",
    "tensors",
    "texts",
]
