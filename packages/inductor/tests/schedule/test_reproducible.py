"""The same graph gives the same text in every process, so that caches by content hit."""

import os
import subprocess
import sys

PROGRAM = """
import hashlib, torch
from inductor.codegen.wrapper import generate
from inductor_schedules import scheduled

def f(x, y):
    z = torch.mm(x, y).softmax(-1)
    parts = [z[:, :4] + x[:, :4], z[:, 4:] * y[:4, 4:].sum(0), x.t() + y[0, 0], y.flip(0) - x[:, :1]]
    return *parts, z.sum(0), (x * y).sum(-1), x.view(2, 4, 8).amax(1)

plan = scheduled(f, torch.ones(8, 8), torch.ones(8, 8))
print(str(plan) + generate(plan).text + "".join(str(k.body) for k in plan.kernels))
"""


def test_hash_seeds_do_not_matter() -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", PROGRAM],
            env={**environment, "PYTHONHASHSEED": seed},
            stdout=subprocess.PIPE,
            text=True,
        )
        for seed in ("1", "2")
    ]
    first, second = (process.communicate()[0] for process in processes)
    assert "def call" in first
    assert first == second
