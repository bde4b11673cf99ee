"""Training patterns as people write them: each a function that trains for a few steps and says what came of it.

A pattern takes `compiled` (what wraps the functions or modules that the program compiles) and returns tensors and numbers
to compare with eager's. `PATTERNS` holds them all, by name.
"""

from tests_integration.training_patterns import (  # noqa: F401  (importing a family enters its patterns)
    functions,
    gradients,
    hooks,
    losses,
    modes,
    optimizers,
    parts,
)
from tests_integration.training_patterns.registry import PATTERNS, Pattern

__all__ = ["PATTERNS", "Pattern"]
