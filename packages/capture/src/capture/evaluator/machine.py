"""The symbolic machine: the chain of behaviours as one class."""

from __future__ import annotations

from .protocols import Protocols


class Machine(Protocols):
    """Evaluates one frame's bytecode over variables, for one capture attempt."""
