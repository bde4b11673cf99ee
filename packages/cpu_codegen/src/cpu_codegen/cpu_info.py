"""Which vector instructions to compile for."""

from __future__ import annotations

from cpu_codegen.environment import environment
from cpu_codegen.text import words
from symshapes import ambient, dataclass


@dataclass(frozen=True)
class Isa:
    """An instruction set: vector width in bytes and the compiler flags that allow it."""

    name: str
    vector_bytes: int
    flags: tuple[str, ...]

    @property
    def lanes(self) -> int:
        """float32 values per vector."""
        return self.vector_bytes // 4


ISAS: dict[str, Isa] = {
    "avx512": Isa("avx512", 64, ("-march=x86-64-v4",)),
    "avx2": Isa("avx2", 32, ("-march=x86-64-v3",)),
    # What every machine of the architecture has; compilers lower 16-byte vectors to whatever that is.
    "scalar": Isa("scalar", 16, ()),
}
_NEEDS: dict[str, frozenset[str]] = {
    "avx512": frozenset(words("avx512f avx512bw avx512cd avx512dq avx512vl avx2 fma f16c bmi2")),
    "avx2": frozenset(words("avx2 fma f16c bmi2")),
}


def detect_isa() -> Isa:
    """The widest instruction set of this machine, or the one `CPU_CODEGEN_ISA` names (avx512, avx2, scalar).

    Raises:
        ValueError: the variable names none of them.
    """
    wanted = environment().isa
    if wanted:
        if wanted not in ISAS:
            raise ValueError(f"CPU_CODEGEN_ISA={wanted}: expected one of {', '.join(ISAS)}")
        return ISAS[wanted]
    machine = ambient().machine
    if machine.architecture.lower() in ("x86_64", "amd64"):
        for name, needs in _NEEDS.items():
            if needs <= machine.features:
                return ISAS[name]
    return ISAS["scalar"]
