"""Machine code of a kernel, and what a launch has to know of it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

_FACTS, _CODE = "facts.json", "code"
_UNUSED = ("global_scratch_size", "profile_scratch_size", "launch_cooperative_grid", "launch_pdl")
"""What Triton may say a launch has to bring, and of which our kernels use nothing."""

WAIT = "griddepcontrol.wait"
"""The instruction that waits for the launches before."""


class Binary(NamedTuple):
    """A compiled kernel."""

    name: str
    code: bytes
    threads: int
    """Of a program."""
    shared: int
    """Bytes of shared memory."""
    early: bool
    """It can be launched before the launches before it have ended: it waits for these itself (see `library.begin`)."""
    key: str | None = None
    """Of its cache entry, if it has one."""

    @staticmethod
    def of(compiled: Any, code: bytes) -> Binary:
        """Of Triton's `CompiledKernel` and its code. Raises RuntimeError where a launch would have to bring more than arguments."""
        what = compiled.metadata
        asked = {name: value for name in _UNUSED if (value := getattr(what, name, None)) not in (None, 0, False)}
        if asked or getattr(what, "num_ctas", 1) != 1:
            raise RuntimeError(f"kernel {what.name} is to be launched in a way that was not asked for: {asked}")
        early = WAIT in compiled.asm.get("ptx", "")
        return Binary(what.name, code, what.num_warps * what.target.warp_size, what.shared, early)

    def files(self) -> dict[str, bytes]:
        """Of a cache entry."""
        facts = {"name": self.name, "threads": self.threads, "shared": self.shared, "early": self.early}
        return {_FACTS: json.dumps(facts).encode(), _CODE: self.code}

    @staticmethod
    def read(files: Mapping[str, bytes]) -> Binary | None:
        """What `files` wrote; None where it is something else."""
        try:
            facts = json.loads(files[_FACTS])
            return Binary(
                str(facts["name"]), files[_CODE], int(facts["threads"]), int(facts["shared"]), bool(facts["early"])
            )
        except (KeyError, ValueError, TypeError):
            return None
