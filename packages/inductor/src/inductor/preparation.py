"""`prepare_backends`: what can begin before there is anything to compile. Nothing here takes part in compiling.

Flows in: options. Flows out: nothing; a backend has begun with what its first kernels will need.
"""

from __future__ import annotations

import torch

from inductor.backends import Devices
from inductor.cache import DiskCache
from inductor.device import PreparingBackend
from inductor.loading import SECTION
from inductor.options import Options


def prepare_backends(options: Options | None = None) -> None:
    """Let the backend of the accelerator that the program uses already, if it does, begin with what its first kernels will need: with what
    compiling takes, too, where no graph was ever stored, so that the first will have to be compiled."""
    options = Options() if options is None else options
    accelerator = torch.accelerator.current_accelerator()
    if accelerator is None or not torch.get_device_module(accelerator).is_initialized():
        return
    try:
        backend = Devices({}, options.backends).backend(accelerator)
    except LookupError:  # told where it matters: where a graph is compiled for it
        return
    if isinstance(backend, PreparingBackend):
        backend.prepare(compiling=False)
        if not options.cache or DiskCache(SECTION, options.cache_dir).is_empty():
            backend.prepare(compiling=True)
