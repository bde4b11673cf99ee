"""Every test turns failures of the compiler into exceptions, and leaves no compiled code. On a Python whose bytecode the
package does not know, only what must work there is tested."""

import sys
from collections.abc import Iterator

import pytest

import capture
from capture.bytecode.dialect import SUPPORTED, UNSUPPORTED_MESSAGE

ANYWHERE = ("test_versions.py", "test_hatch_build.py")


def pytest_collection_modifyitems(items):
    if sys.version_info[:2] in SUPPORTED:
        return
    for item in items:
        if item.path.name not in ANYWHERE:
            item.add_marker(pytest.mark.skip(reason=UNSUPPORTED_MESSAGE))


@pytest.fixture(autouse=True)
def _raise_on_error() -> Iterator[None]:
    before = capture.config.on_error
    capture.config.on_error = "raise"
    yield
    capture.config.on_error = before
    capture.reset()
