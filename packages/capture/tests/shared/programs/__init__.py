"""Small programs over tensors and plain Python, run eagerly and captured by ``test_programs``.

Each of ``PROGRAMS`` is a function of a tensor; everything it returns, raises or changes is compared.
"""

from . import (
    breaks,
    classes,
    containers,
    context_managers,
    exception_chains,
    exceptions,
    functions,
    generator_protocol,
    iteration,
    iteration_tools,
    language,
    numeric_modules,
    object_protocols,
    standard_library,
    tensors,
    texts,
)
from .registry import PROGRAMS

__all__ = [
    "PROGRAMS",
    "breaks",
    "classes",
    "containers",
    "context_managers",
    "exception_chains",
    "exceptions",
    "functions",
    "generator_protocol",
    "iteration",
    "iteration_tools",
    "language",
    "numeric_modules",
    "object_protocols",
    "standard_library",
    "tensors",
    "texts",
]
