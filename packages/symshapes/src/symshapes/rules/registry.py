"""The one table of shape rules, the count of ops that had none, and the memo of answers.

A rule takes the op's arguments with every tensor replaced by its `TensorMeta` and answers with a `TensorMeta`,
`View`, `Same`, number, None, or a list or tuple of these, running nothing; or with NotImplemented where it does not know.
"""

from collections import Counter
from collections.abc import Callable
from typing import Any, TypeVar

from symshapes import _torch
from symshapes.facts import OperatorFacts, facts_of, forget_operators
from symshapes.rules.by_operator import ByOperator
from symshapes.rules.kernels import FAMILIES, asking, forget_kernels

Rule = Callable[..., Any]
RuleT = TypeVar("RuleT", bound=Rule)

RULES: ByOperator[Rule] = ByOperator()
DEMANDS: ByOperator[Rule] = ByOperator()
MEMO: dict[Any, Any] = {}
MEMO_BOUND = 65536
_MISSING: Counter[str] = Counter()
_KNOWN: dict[Any, tuple[Rule | None, OperatorFacts]] = {}


class DataDependentError(RuntimeError):
    """An op needs the data of a fake tensor (`item`, `nonzero`, `bool(t)`); `.op` names it."""

    def __init__(self, op: Any) -> None:
        super().__init__(f"{op} needs the values of a tensor that has none here")
        self.op = op


def register_rule(*ops: Any) -> Callable[[RuleT], RuleT]:
    """Decorator: make the function the shape rule of these `OpOverload`s (a packet means all its overloads)."""

    def register(rule: RuleT) -> RuleT:
        for op in ops:
            if isinstance(op, _torch.OpOverloadPacket):
                for name in op.overloads():
                    RULES[getattr(op, name)] = rule
            else:
                RULES[op] = rule
        reset_rules()
        return rule

    return register


def rule_and_facts(op: Any) -> tuple[Rule | None, OperatorFacts]:
    """The rule of an operator, if it has one, and its facts: one look-up for both."""
    found = _KNOWN.get(op)
    if found is None:
        facts = facts_of(op)
        # Most that write have no rule of their own, and those that do have it beside the functional one's.
        rule = RULES.given.get(op) or RULES.by_name(op, beside=facts.functional)
        # In place it demands what it demands of the same arguments where it is functional.
        if rule is not None:
            family, computing = rule.__module__, facts.functional or op
            rule = demanding(DEMANDS.get(op) or DEMANDS.get(facts.functional), rule)
            if family in FAMILIES and facts_of(computing).pure:
                rule = asking(computing, rule, promotes=FAMILIES[family])
        found = _KNOWN[op] = rule, facts
    return found


def demanding(demanded: Rule | None, rule: Rule) -> Rule:
    """A rule that checks arguments first, as an entry of `DEMANDS` does."""
    if demanded is None:
        return rule

    def checked(*args: Any, **kwargs: Any) -> Any:
        demanded(*args, **kwargs)
        return rule(*args, **kwargs)

    return checked


def rule(*names: str) -> Callable[[RuleT], RuleT]:
    """`register_rule` for overloads of ATen's by name ("add.Tensor"; no dot means default)."""

    def register(rule: RuleT) -> RuleT:
        RULES.named.update(dict.fromkeys(names, rule))
        return rule

    return register


def demand(*names: str) -> Callable[[RuleT], RuleT]:
    """Decorator: make the function check the arguments of these overloads of ATen's, by name, before their rules run."""

    def register(check: RuleT) -> RuleT:
        DEMANDS.named.update(dict.fromkeys(names, check))
        return check

    return register


def count_missing(op: Any) -> None:
    """Note that `op` fell to torch's meta kernel."""
    _MISSING[str(op)] += 1


def missing_rules() -> Counter[str]:
    """How often each op without a rule of ours fell to torch's meta kernel, since the last `reset_rules`."""
    return Counter(_MISSING)


def reset_rules() -> None:
    """Forget memoised answers, what is known of ops, and the counts of missing rules."""
    MEMO.clear()
    _KNOWN.clear()
    forget_operators()
    forget_kernels()
    _MISSING.clear()
