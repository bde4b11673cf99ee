"""Handlers of operations, by family; ``handler_of`` finds one by name."""

from . import calls, containers, control, exceptions, variables
from .registry import handler_of

__all__ = ["calls", "containers", "control", "exceptions", "handler_of", "variables"]
