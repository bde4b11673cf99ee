"""What the tracer knows of the traced program's tensors and storages.

Every storage has a generation that a write raises; a tensor of an older generation is stale, and made again from the
tensor it is a view of when somebody reads it.
"""

from __future__ import annotations

from torch import fx

from aotgrad.views import ViewStep
from symshapes import FakeTensor, dataclass


@dataclass(slots=True, eq=False)
class Storage:
    """One storage of the traced program."""

    root: Tracked
    generation: int = 0
    written: bool = False
    wrote: fx.Node | None = None
    """The program's call that wrote last."""
    counted: bool = False
    """Whether the version of its tensors tells of a write: not where all were made through `Tensor.data`."""


@dataclass(slots=True, eq=False)
class Tracked:
    """One tensor of the traced program and the node that has its value.

    `exact` says that the node's value has the strides of `fake`, the tensor as the program sees it. They part where a
    functional op chose other strides than the tensor it stands for a write to. `seen` is how the program made the view
    where the trace made it in another way from another tensor. `apart`: it is some tensor's `data`, which counts writes by itself.
    """

    fake: FakeTensor
    node: fx.Node
    storage: Storage
    generation: int
    exact: bool
    parent: Tracked | None = None
    step: ViewStep | None = None
    seen: tuple[Tracked, ViewStep] | None = None
    apart: bool = False

    @property
    def origin(self) -> tuple[Tracked, ViewStep] | None:
        """What the program made this view of, and how; None if it is no view."""
        if self.seen is not None or self.parent is None or self.step is None:
            return self.seen
        return self.parent, self.step

    @property
    def is_apart(self) -> bool:
        """Whether the program made it of some tensor's `data`: no write to it is counted where that is read."""
        at: Tracked | None = self
        while at is not None and not at.apart:
            at = at.origin[0] if at.origin is not None else None
        return at is not None


def fresh(fake: FakeTensor, node: fx.Node, exact: bool) -> Tracked:
    """A tensor with a storage of its own."""
    tracked = Tracked(fake, node, None, 0, exact)  # type: ignore[arg-type]  # set in the next line
    tracked.storage = Storage(tracked)
    return tracked
