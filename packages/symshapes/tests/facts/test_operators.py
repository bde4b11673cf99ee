"""Facts of operators: against what the operators do, and for all that this torch has."""

import pytest
import torch

from symshapes import facts_if_operator, facts_of
from symshapes.rules.registry import RULES

aten = torch.ops.aten


def _all_operators():
    for schema in torch._C._jit_get_all_schemas():
        namespace, _, name = schema.name.partition("::")
        if namespace == "aten":
            packet = getattr(aten, name, None)
            op = getattr(packet, schema.overload_name or "default", None)
            if op is not None and torch._C._dispatch_has_kernel(op.name()):
                yield op


def test_what_shape_rules_call_views_is_not_taken_for_new_memory():
    views = [op for op, rule in RULES.items() if "View" in str(rule.__annotations__.get("return"))]
    assert aten._unsafe_view.default in views and aten.unsafe_split.Tensor in views
    for op in set(views) - {aten.resize.default}:  # its rule says what `resize_` makes of a tensor
        facts = facts_of(op)
        assert (facts.aliases or facts.hides_views) and not facts.fresh, op


def test_functional_forms_of_all_operators_write_nothing_and_give_what_is_written():
    found = 0
    for op in _all_operators():
        facts = facts_of(op)
        assert bool(facts.written) == op._schema.is_mutable, op
        assert len(facts.returns_written) == len(op._schema.returns), op
        if facts.functional is None:
            continue
        found += 1
        functional = facts_of(facts.functional)
        assert facts.written and not functional.written and functional.functional is None, op
        if functional.returns_written and not any(argument.is_list for argument in facts.written):
            assert len(functional.returns_written) >= len(facts.written), op
    assert found > 1000


@pytest.mark.parametrize(
    ("op", "true"),
    [
        (aten.add.Tensor, {"pure", "elementwise", "fresh"}),
        (aten.mm.default, {"pure", "fresh"}),
        (aten._unsafe_view.default, {"pure", "hides_views"}),
        (aten.select.int, {"views", "aliases"}),
        (aten.detach.default, {"views", "aliases"}),
        (aten.reshape.default, {"composite", "aliases"}),
        (aten.rand.default, {"random", "acts", "fresh"}),
        (aten.nonzero.default, {"pure", "needs_data", "fresh"}),
        (aten.add_.Tensor, {"acts", "elementwise"}),
        (aten.t_.default, {"acts", "reshapes"}),
        (aten.uniform_.default, {"acts", "random"}),
        (aten._assert_async.msg, {"acts", "fresh"}),
    ],
    ids=lambda given: "+".join(sorted(given)) if isinstance(given, set) else str(given),
)
def test_facts(op, true):
    facts = facts_of(op)
    names = (
        "pure",
        "elementwise",
        "views",
        "aliases",
        "composite",
        "random",
        "acts",
        "needs_data",
        "reshapes",
        "fresh",
        "hides_views",
    )
    assert {name for name in names if getattr(facts, name)} == true


@pytest.mark.parametrize(
    ("op", "functional"),
    [
        (aten.add_.Tensor, aten.add.Tensor),
        (aten.add.out, aten.add.Tensor),
        (aten.__lshift__.Tensor_out, aten.__lshift__.Tensor),  # its own name ends in underscores
        (aten._native_batch_norm_legit.default, aten._native_batch_norm_legit_functional.default),
        (aten.transpose_.default, aten.transpose.int),
        (aten.resize_.default, aten.resize.default),  # which is no view: what is resized has other storage
        (aten.add.Tensor, None),
    ],
    ids=str,
)
def test_functional_form(op, functional):
    assert facts_of(op).functional is functional


def test_written_arguments_of_a_call():
    values, indices, x = torch.empty(2), torch.empty(2, dtype=torch.int64), torch.rand(3)
    facts = facts_of(aten.topk.values)
    assert [argument.of((x, 2), {"values": values, "indices": indices}) for argument in facts.written] == [
        values,
        indices,
    ]
    assert [facts.written[number].name for number in facts.returns_written] == ["values", "indices"]
    (only,) = facts_of(aten.add_.Tensor).written
    assert only.of((x, 1), {}) is x and only.of((), {"self": x}) is x


def test_an_operator_of_the_users_own():
    @torch.library.custom_op("facts_test::fill_first", mutates_args={"x"})
    def fill_first(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x[0] = y
        return y + 1

    facts = facts_of(torch.ops.facts_test.fill_first.default)
    assert [argument.name for argument in facts.written] == ["x"]
    assert facts.acts and not facts.aliases and not facts.views and facts.returns_written == (-1,)


def test_of_what_is_no_operator_nothing_is_known():
    assert facts_if_operator(torch.sin) is None
    assert facts_if_operator(aten.sin.default) is facts_of(aten.sin.default)
