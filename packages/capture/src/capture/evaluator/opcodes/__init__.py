"""Handlers of operations, by family; importing this package registers them."""

import sys

from . import asynchronous, calls, containers, control, exceptions, variables

if sys.version_info >= (3, 14):
    from . import templates as templates

__all__ = ["asynchronous", "calls", "containers", "control", "exceptions", "variables"]
