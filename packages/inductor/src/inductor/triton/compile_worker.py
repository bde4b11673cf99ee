"""A process that compiles kernels for another one: run as a file, which imports Triton, but neither torch nor the rest of inductor.

Flows in: as arguments the path for imports, in JSON, whether it is started `ahead` of what it will be asked, and a folder of its own, which is
gone with it; on standard input, pickled, a `Request` a kernel. Flows out, on standard output: None where it can be asked; for each kernel the
fields of a `Binary`, or None where that failed: who asked compiles it, and meets the error. It ends with its input, or when it was idle for long.
"""

from __future__ import annotations

import json
import linecache
import os
import pickle
import select
import shutil
import signal
import sys
import tempfile
import types
from pathlib import Path
from typing import IO, Any, NamedTuple

IDLE = 60
"""Seconds."""
FIRST = """
import triton
import triton.language as tl

from inductor.triton import library, prelude, shared_rows


@triton.jit
def first(out):
    at = tl.arange(0, 128)
    tl.store(out + at, tl.load(out + at) + tl.sum(tl.load(out + 128 + at), 0))
"""
"""A kernel for practice: what a process compiles first takes twice as long as what follows."""


class Request(NamedTuple):
    """A kernel, as `ASTSource` takes it, but its function: that is `name` of a module's text."""

    digest: str
    """Of the text."""
    text: str
    name: str
    signature: dict[str, str]
    constants: dict[Any, Any]
    attributes: dict[Any, Any]
    target: tuple[str, Any, int]
    options: dict[str, Any]


def main() -> None:
    """Serve one process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # meant for who is served, whose end is noticed
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever Triton prints is no answer
    questions = sys.stdin.buffer
    sys.path[:] = json.loads(sys.argv[1])
    _without_parents(Path(__file__).parent)
    try:
        _keep_in(sys.argv[3])
        _serve(questions, answers, practise=sys.argv[2] == "ahead")
    except (EOFError, BrokenPipeError, pickle.UnpicklingError):  # whom it served is gone, in the midst of a question
        # Nor is there anybody for what is not written yet, which would be tried again, and fail aloud.
        os.dup2(os.open(os.devnull, os.O_WRONLY), answers.fileno())
    finally:
        shutil.rmtree(sys.argv[3], ignore_errors=True)


def _serve(questions: IO[bytes], answers: IO[bytes], *, practise: bool) -> None:
    functions: dict[str, dict[str, Any]] = {}
    if practise:
        _compiled(_first(), {})
    pickle.dump(None, answers)
    answers.flush()
    # Nobody asks before the last answer came, so nothing is read ahead that could not be waited for.
    while select.select([questions], [], [], IDLE)[0]:
        request = Request(*pickle.load(questions))
        pickle.dump(_compiled(request, functions), answers)
        answers.flush()


def _without_parents(folder: Path) -> None:
    """Let kernels import what they call from beside this file, without what its packages import first."""
    for name, place in (("inductor", folder.parent), ("inductor.triton", folder)):
        package = types.ModuleType(name)
        package.__path__ = [str(place)]
        sys.modules[name] = package


def _keep_in(folder: str) -> None:
    """Let Triton write all of its files there: who asks keeps the code."""
    from triton import knobs  # noqa: PLC0415  (`sys.path` was set before)
    from triton.runtime import cache  # noqa: PLC0415  (as above)

    knobs.cache.dir = tempfile.tempdir = folder  # the assembler's files, too
    # In a folder that is gone with this process it tells nothing apart, and takes reading all of Triton's own files.
    cache.triton_key = lambda: ""


def _first() -> Request:
    return Request("first", FIRST, "first", {"out": "*fp32"}, {}, {}, ("cuda", 90, 32), {})


def _compiled(request: Request, functions: dict[str, dict[str, Any]]) -> tuple[Any, ...] | None:
    from triton.backends.compiler import GPUTarget  # noqa: PLC0415  (as above)
    from triton.compiler import ASTSource  # noqa: PLC0415  (as above)

    from inductor.triton.assembling import compile_kernel  # noqa: PLC0415  (as above)
    from inductor.triton.binary import Binary  # noqa: PLC0415  (as above)

    try:
        if request.digest not in functions:
            functions[request.digest] = _executed(request.digest, request.text)
        function = functions[request.digest][request.name]
        source = ASTSource(function, request.signature, request.constants, request.attributes)
        return tuple(Binary.of(*compile_kernel(source, GPUTarget(*request.target), request.options)))
    except Exception:  # of any kind: who asked meets it, too
        return None


def _executed(digest: str, text: str) -> dict[str, Any]:
    """What the text defines; Triton reads a kernel's source among its lines."""
    path = f"<triton {digest}>"
    linecache.cache[path] = len(text), None, text.splitlines(keepends=True), path
    found: dict[str, Any] = {"__name__": path}
    exec(compile(text, path, "exec"), found)
    return found


if __name__ == "__main__":
    main()
