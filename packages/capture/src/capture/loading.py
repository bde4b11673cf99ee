"""Modules that others import where they need them, loaded with the package.

A fork while another thread is in the middle of such an import would leave the child waiting for its lock.
"""

from __future__ import annotations

from .bytecode.dialect import current


def load_lazy_modules() -> None:
    """Import what the first capture would import."""
    from .evaluator import opcodes  # noqa: F401
    from .guards import lower, shapes  # noqa: F401
    from .variables import known_functions  # noqa: F401

    current()
