"""Text that is no plan's."""

from __future__ import annotations

import pytest

from aotgrad import plan_of


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "null",
        '{"Plan":[]}',
        '{"Plan":[null,null,null,null,null,null,null,null]}',
        '{"device":"nowhere"}',
        '{"torch":"load"}',
        '{"aten":"nothing"}',
        '{"aten":3}',
        '{"a":1,"b":2}',
    ],
)
def test_what_is_no_plan(text: str) -> None:
    with pytest.raises((ValueError, KeyError, TypeError, AttributeError)):
        plan_of(text)
