"""What modes of a compiler have in common: torch does not take them for the program's own."""

from __future__ import annotations

from torch.utils._python_dispatch import TorchDispatchMode


class InfraMode(TorchDispatchMode):
    """A dispatch mode that belongs to a compiler, to derive from."""

    @classmethod
    def is_infra_mode(cls) -> bool:
        """This mode is not a program's own: torch's bookkeeping of user modes skips it."""
        return True

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """False: the wrapper that hides a mode from torch's own compiler costs its whole import."""
        return False

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        """True for the same reason as `is_infra_mode`."""
        return True
