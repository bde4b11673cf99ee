"""`meta.compile()`: capture, aotgrad, inductor and cpu_codegen wired together. Thin: no algorithm lives here."""

from symshapes.versions import check_versions

check_versions("meta")

from meta import backends  # noqa: E402 - the versions are checked before anything that may fail on an old one
from meta.api import compile, reset  # noqa: E402
from meta.report import Explanation, explain  # noqa: E402

__all__ = ["Explanation", "backends", "compile", "explain", "reset"]
__version__ = "0.1.0"
