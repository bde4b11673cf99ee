"""Handlers of operations, by family; importing this package registers them."""

from . import asynchronous, calls, containers, control, exceptions, variables

__all__ = ["asynchronous", "calls", "containers", "control", "exceptions", "variables"]
