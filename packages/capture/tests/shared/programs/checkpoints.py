# ruff: noqa
"""`torch.utils.checkpoint`: what is computed twice in eager, and where that is seen."""

from __future__ import annotations

import functools

import torch
import torch.nn.functional as F
from torch.utils.checkpoint import (
    CheckpointPolicy,
    checkpoint,
    checkpoint_sequential,
    create_selective_checkpoint_contexts,
)

from .registry import program

torch.manual_seed(0)
NETWORK = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Tanh(), torch.nn.Linear(3, 4))
NORM = torch.nn.BatchNorm1d(4)
once = functools.partial(checkpoint, use_reentrant=False)


@program
def checkpoint_of_a_function(x):
    return checkpoint(lambda v: v.sin() @ v.t().cos(), x, use_reentrant=False)


@program
def checkpoint_of_a_module(x):
    return checkpoint(NETWORK, x, use_reentrant=False)


@program
def checkpoint_with_keywords(x):
    return once(lambda v, *, by: v * by, x, by=2.0), once(lambda v, w=None: v if w is None else v + w, x, w=x)


@program
def checkpoint_of_several_results(x):
    a, (b, c) = once(lambda v: (v.sin(), [v.cos(), 3]), x)
    return a * b, c


@program
def checkpoints_in_a_row(x):
    for _ in range(3):
        x = once(NETWORK, x)
    return x


@program
def checkpoint_in_a_checkpoint(x):
    return once(lambda v: once(torch.sin, v).exp(), x)


@program
def checkpoint_of_draws(x):
    return once(lambda v: F.dropout(v.sin(), 0.5).exp(), x), torch.rand(2)


@program
def checkpoint_that_keeps_no_state(x):
    return once(lambda v: v.sin().exp(), x, preserve_rng_state=False)


@program
def checkpoint_without_gradients(x):
    with torch.no_grad():
        return once(NETWORK, x), checkpoint(NETWORK, x, use_reentrant=True)


@program
def checkpoint_under_autocast(x):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return once(NETWORK, x)


@program
def checkpoint_of_a_sequence(x):
    return checkpoint_sequential(NETWORK, 2, x, use_reentrant=False)


def products(context, op, *args, **kwargs):
    return CheckpointPolicy.MUST_SAVE if op is torch.ops.aten.mm.default else CheckpointPolicy.PREFER_RECOMPUTE


@program
def checkpoint_that_keeps_some(x):
    contexts = functools.partial(create_selective_checkpoint_contexts, products)
    return once(lambda v: (v @ v.t()).sin(), x, context_fn=contexts)


@program
def checkpoint_that_keeps_listed_operators(x):
    contexts = functools.partial(create_selective_checkpoint_contexts, [torch.ops.aten.mm.default])
    return once(lambda v: (v @ v.t()).sin(), x, context_fn=contexts)


@program
def checkpoint_changes_a_list_breaks(x):
    seen = []
    return once(lambda v: (seen.append(1), v.sin())[1], x), seen


@program
def checkpoint_changes_a_buffer_breaks(x):
    NORM.reset_running_stats()
    return once(NORM, x), NORM.running_mean.clone()


@program
def checkpoint_draws_anew_breaks(x):
    return once(lambda v: F.dropout(v, 0.5), x, preserve_rng_state=False)


@program
def checkpoint_prints_breaks(x):
    return once(lambda v: (compile("0", "", "eval"), v.sin())[1], x)


@program
def checkpoint_writes_to_its_argument_breaks(x):
    y = x * 1
    return once(lambda v: v.add_(1), y), y


@program
def checkpoint_in_contexts_breaks(x):
    return once(NETWORK, x, context_fn=lambda: (torch.no_grad(), torch.no_grad()))


@program
def checkpoint_in_a_transform_breaks(x):
    return torch.func.grad(lambda v: once(torch.sin, v).sum())(x)


@program
def transform_in_a_checkpoint_breaks(x):
    return once(lambda v: torch.func.grad(lambda w: (w**2).sum())(v), x)


@program
def reentrant_checkpoint_of_constants_breaks(x):
    return checkpoint(NETWORK, x, use_reentrant=True).requires_grad
