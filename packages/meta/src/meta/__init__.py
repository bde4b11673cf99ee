"""`meta.compile()`: capture, aotgrad, inductor and cpu_codegen wired together. Thin: no algorithm lives here."""

from meta import backends
from meta.api import compile, reset
from meta.report import Explanation, explain
from symshapes import own_folders as _own_folders

__all__ = ["Explanation", "backends", "compile", "explain", "reset"]
__version__ = "0.1.0"

_own_folders(__path__)
