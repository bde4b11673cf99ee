"""What is read of torch beyond its documented API; one line each says why."""

from __future__ import annotations

import functools
from pathlib import Path

import torch


@functools.cache
def openmp_runtime() -> str | None:
    """Path of the OpenMP runtime torch's own kernels run on, so that ours share its threads and their number.

    Of the runtimes loaded in this process: the one in torch's directory, else the only one. None: not Linux, none
    loaded, or no telling.
    """
    maps = Path("/proc/self/maps")
    if not maps.exists():
        return None
    places = {line.split()[-1] for line in maps.read_text().splitlines() if "omp" in line}
    loaded = {place for place in places if Path(place).name.startswith(("libgomp", "libomp", "libiomp"))}
    home = str(Path(torch.__file__).parent)
    own = {path for path in loaded if path.startswith(home)}
    candidates = own or loaded
    return candidates.pop() if len(candidates) == 1 else None
