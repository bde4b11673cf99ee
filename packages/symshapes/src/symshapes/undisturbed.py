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


@contextmanager
def levels_kept() -> Iterator[None]:
    """Afterwards no level of a function transform (vmap, grad, jvp) is entered that was not before, however this ended."""
    depth, dual = len(_torch.levels()), _torch.dual_level()
    leaves, tangents = _torch.leaves_allowed(), _torch.tangents_enabled()
    try:
        yield
    finally:
        for level in reversed(_torch.levels()[depth:]):
            _torch.leave_level(level)
        while _torch.dual_level() > dual:
            torch.autograd.forward_ad.exit_dual_level()
        if _torch.leaves_allowed() is not leaves:
            _torch.allow_leaves(leaves)
        if _torch.tangents_enabled() is not tangents:
            _torch.enable_tangents(tangents)
