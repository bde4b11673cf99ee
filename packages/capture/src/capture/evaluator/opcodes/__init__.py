"""Handlers of operations, by family; importing this package registers them."""

from . import calls, containers, control, exceptions, variables

__all__ = ["calls", "containers", "control", "exceptions", "variables"]
