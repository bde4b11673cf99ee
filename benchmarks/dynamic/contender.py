"""What rows see of a compiler: `compile` and marks, the same for eager, ours and the peer; graphs handed to the backend are counted."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch


@dataclass(frozen=True)
class Form:
    """`dynamic` is compile's; `compiled`: by the default backend, else the captured graph is run as it is."""

    dynamic: bool | None
    compiled: bool

    @property
    def name(self) -> str:
        return f"{'dynamic' if self.dynamic else 'automatic'}, {'compiled' if self.compiled else 'graph'}"


FORMS = [Form(dynamic, compiled) for compiled in (False, True) for dynamic in (None, True)]


@dataclass
class Contender:
    """Eager: what is compiled is the function itself, and marks say nothing."""

    form: Form = FORMS[0]
    whole: bool = True
    graphs: int = 0
    """How often the backend was called."""
    texts: list[str] = field(default_factory=list)

    def compile(self, fn: Any = None, **options: Any) -> Any:
        if fn is None:
            return functools.partial(self.compile, **options)
        return fn

    def counting(self, backend: Callable[..., Any]) -> Callable[..., Any]:
        """The backend, which counts its calls."""

        def counted(graph: Any, inputs: Any) -> Any:
            self.graphs += 1
            return backend(graph, inputs)

        return counted

    def mark_dynamic(self, tensor: torch.Tensor, dim: Any, min: int | None = None, max: int | None = None) -> None: ...

    def maybe_mark_dynamic(self, tensor: torch.Tensor, dim: Any) -> None: ...

    def mark_static(self, tensor: torch.Tensor, dim: Any = None) -> None: ...

    def mark_unbacked(self, tensor: torch.Tensor, dim: Any) -> None: ...

    def raises(self, fn: Callable[[], Any]) -> list[str]:
        """What a contender that promises an error is to raise: eager, which promises nothing, is given the benefit."""
        return ["raised"]

    @property
    def counted(self) -> int | None:
        """The count so far, for rows that look at it; eager has none."""
        return None


class Compiling(Contender):
    """What both compilers have in common."""

    def raises(self, fn: Callable[[], Any]) -> list[str]:
        try:
            fn()
        except Exception:
            return ["raised"]
        return ["nothing raised"]


class Ours(Compiling):
    """`meta.compile`, told to capture what depends on data; a failure within it is an error."""

    def compile(self, fn: Any = None, **options: Any) -> Any:
        if fn is None:
            return functools.partial(self.compile, **options)
        import capture
        import meta

        capture.config.on_error = "raise"
        capture.config.capture_data_dependent = True
        backend = meta.backends.inductor if self.form.compiled else meta.backends.eager
        asked = {"dynamic": self.form.dynamic, "fullgraph": self.whole, **options}
        return meta.compile(fn, backend=self.counting(backend), **asked)

    def mark_dynamic(self, tensor: torch.Tensor, dim: Any, min: int | None = None, max: int | None = None) -> None:
        _marks().mark_dynamic(tensor, dim, min=min, max=max)

    def maybe_mark_dynamic(self, tensor: torch.Tensor, dim: Any) -> None:
        _marks().maybe_mark_dynamic(tensor, dim)

    def mark_static(self, tensor: torch.Tensor, dim: Any = None) -> None:
        _marks().mark_static(tensor, dim)

    def mark_unbacked(self, tensor: torch.Tensor, dim: Any) -> None:
        _marks().mark_unbacked(tensor, dim)


def _marks() -> Any:
    import symshapes

    return symshapes


class Peer(Compiling):
    """`torch.compile`, told to capture what depends on data."""

    def compile(self, fn: Any = None, **options: Any) -> Any:
        if fn is None:
            return functools.partial(self.compile, **options)
        from torch._dynamo import config, lookup_backend

        config.capture_scalar_outputs = True
        config.capture_dynamic_output_shape_ops = True
        backend = lookup_backend("inductor" if self.form.compiled else "eager")
        asked = {"dynamic": self.form.dynamic, "fullgraph": self.whole, **options}
        return torch.compile(fn, backend=self.counting(backend), **asked)

    def mark_dynamic(self, tensor: torch.Tensor, dim: Any, min: int | None = None, max: int | None = None) -> None:
        import torch._dynamo

        for one in dim if isinstance(dim, tuple | list) else (dim,):
            torch._dynamo.mark_dynamic(tensor, one, min=min, max=max)

    def maybe_mark_dynamic(self, tensor: torch.Tensor, dim: Any) -> None:
        import torch._dynamo

        torch._dynamo.maybe_mark_dynamic(tensor, dim)

    def mark_static(self, tensor: torch.Tensor, dim: Any = None) -> None:
        import torch._dynamo

        torch._dynamo.mark_static(tensor, dim)

    def mark_unbacked(self, tensor: torch.Tensor, dim: Any) -> None:
        from torch._dynamo.decorators import mark_unbacked

        mark_unbacked(tensor, dim)


CONTENDERS: dict[str, type[Contender]] = {"ours": Ours, "torch.compile": Peer}
