"""Backends by name: eager, those of installed distributions, and those that were registered with torch's own compiler.

In: a name. Out: a function ``backend(graph_module, example_inputs)``, as it was written for ``torch.compile``.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import entry_points
from typing import Any

from torch import fx

from ._torch import registered_backends

GROUP = "torch_dynamo_backends"
"""The entry-point group of installed backends: the one that ``torch.compile`` asks."""


def eager_backend(module: fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
    """Runs the captured graph as it is."""
    return module.forward


def list_backends() -> list[str]:
    """The names that ``compile(backend=...)`` takes."""
    return list(dict.fromkeys(("eager", *sorted({*entry_points(group=GROUP).names, *registered_backends()}))))


def backend_named(name: str) -> Any:
    """The backend of that name.

    Raises ``ValueError`` if there is none, with those there are, and ``TypeError`` if what is installed under it is not callable.
    """
    if name == "eager":
        return eager_backend
    installed = entry_points(group=GROUP)
    if name in installed.names:
        found = installed[name].load()
    elif name in registered_backends():
        found = registered_backends()[name]
    else:
        raise ValueError(f"unknown backend {name!r}; the backends are {', '.join(list_backends())}")
    if not callable(found):
        raise TypeError(f"the installed backend {name!r} is not callable but a {type(found).__name__}")
    return found
