"""What the backend asks of the machine, and where it keeps what it found out. Triton may not be installed.

Flows in: devices. Flows out: what says which they are; folders.
"""

from __future__ import annotations

from pathlib import Path

import torch

from inductor.cache import own_room, usable
from symshapes import dataclass


@dataclass(frozen=True)
class Figures:
    """Where it is kept what kernels were timed, and how they are launched."""

    cache: bool
    """Whether that is kept on disk."""
    folder: str | None
    """The cache folder; None: the usual one."""


def keep_to_own_folders() -> None:
    """Let Triton, which loads what it finds in its cache folder as it is, use none where others may write: there, and where
    it can't write itself, a folder of our cache takes its place. What it finds is verified."""
    from triton import knobs  # noqa: PLC0415  (Triton may not be installed)

    from inductor.triton.files import verify_files  # noqa: PLC0415  (Triton may not be installed)

    verify_files()
    if not usable(Path(knobs.cache.dir)):
        knobs.cache.dir = str(own_room("triton"))


def facts_of(device: torch.device) -> tuple[str, ...]:
    """Triton's version, and a GPU as far as kernels are faster or slower by it."""
    import triton  # noqa: PLC0415  (Triton may not be installed)

    if device.type != "cuda":
        return (triton.__version__,)
    found = torch.cuda.get_device_properties(device)
    facts = (found.name, found.major, found.minor, found.multi_processor_count, found.L2_cache_size)
    return (triton.__version__, *map(str, facts))
