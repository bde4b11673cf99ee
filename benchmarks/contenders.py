"""The contenders by name: how each turns a function or module into a compiled one, and where its disk cache lies.

The peer is imported only when its contender is asked for, so that a fresh process of ours never pays for it.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

Options = dict[str, Any]


def _eager(fn: Any, options: Options | None = None) -> Any:
    return fn


def _torch_compile(fn: Any, options: Options | None = None, mode: str | None = None) -> Any:
    import torch

    return torch.compile(fn, options=options, mode=mode)


def _ours(fn: Any, options: Options | None = None, dynamic: bool | None = None, mode: str | None = None) -> Any:
    import capture
    import meta

    capture.config.on_error = "raise"
    return meta.compile(fn, options=options, dynamic=dynamic, mode=mode)


def _dynamic(fn: Any, options: Options | None = None) -> Any:
    return _ours(fn, options, True)


CONTENDERS: dict[str, Callable[..., Any]] = {
    "eager": _eager,
    "torch.compile": _torch_compile,
    "ours": _ours,
    "dynamic": _dynamic,
}
"""Each takes what is compiled, and the compiler's options by name; the compilers a mode, too. `dynamic` is ours with symbolic sizes from the first call on."""
USUAL = ("eager", "torch.compile", "ours")


def child_environment(directory: str) -> dict[str, str]:
    """The environment of a fresh process with every contender's disk caches under `directory`, in which Python keeps the bytecode of
    sources, as it does of installed packages: under PYTHONDONTWRITEBYTECODE each would compile a checkout's again."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**kept, **cache_environment(directory)}


def cache_environment(directory: str) -> dict[str, str]:
    """Environment variables that put every contender's disk caches under `directory`."""
    return {
        "TORCHINDUCTOR_CACHE_DIR": f"{directory}/peer",
        "TRITON_CACHE_DIR": f"{directory}/triton",
        "INDUCTOR_CACHE_DIR": f"{directory}/ours",
    }
