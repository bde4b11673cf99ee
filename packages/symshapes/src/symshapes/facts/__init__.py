"""What is true of operators, layouts and dtypes, and what eager says where it refuses them: the one place the parts ask."""

from symshapes.facts.operators import (
    OperatorFacts,
    WrittenArgument,
    facts_if_operator,
    facts_of,
    forget_operators,
)

__all__ = ["OperatorFacts", "WrittenArgument", "facts_if_operator", "facts_of", "forget_operators"]
