"""Autograd for tracing: what a program has set up around itself neither sees a trace nor changes it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from symshapes import _torch


@contextmanager
def undisturbed_autograd() -> Iterator[None]:
    """Within, autograd on fakes calls no saved-tensor hooks, looks for no NaN and stays in this thread, where modes are in force;
    afterwards all is as it was."""
    hooks = []
    while (top := _torch.top_saved_tensor_hooks(False)) is not None:
        hooks.append(top)
        _torch.pop_saved_tensor_hooks()
    anomaly, check_nan = torch.is_anomaly_enabled(), torch.is_anomaly_check_nan_enabled()
    if anomaly:
        torch.set_anomaly_enabled(False)
    try:
        with torch.autograd.set_multithreading_enabled(False):
            yield
    finally:
        if anomaly:
            torch.set_anomaly_enabled(True, check_nan)
        for pack, unpack in reversed(hooks):
            _torch.push_saved_tensor_hooks(pack, unpack)
