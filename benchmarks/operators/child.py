"""A process that runs cells: one JSON list `[op, dtype, kind, samples]` a line in, one cell a line out.

`python -m benchmarks.operators.child STAGE DEVICE`: the stage "compiled" is the device's backend; "interpreted" runs kernels by the
IR's interpreter, without a C++ compiler.
"""

from __future__ import annotations

import json
import os
import sys
import warnings

import torch


def main(stage: str, device: str) -> None:
    from benchmarks.operators.cell import run_cell
    from inductor import ReferenceBackend, register_backend

    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    torch.backends.cudnn.allow_tf32 = False
    if stage == "interpreted":
        for of in {"cpu", device}:  # operators for a GPU have results on the CPU, too
            register_backend(ReferenceBackend(of))
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what operators print is no answer
    for line in sys.stdin:
        cell = run_cell(*json.loads(line), device)
        answers.write(json.dumps(vars(cell)) + "\n")
        answers.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
