"""The user's line is found by where code lies, not by what its module is called."""

import contextlib

import torch

from symshapes import FakeMode, build_python
from symshapes.locate import UNKNOWN_LINE, user_line

OURS = ("capture", "aotgrad", "inductor", "meta", "torch", "contextlib")


def test_a_users_package_may_be_called_as_ours() -> None:
    for name in (*OURS, *(f"{name}.models" for name in OURS)):
        namespace = {"__name__": name, "user_line": user_line}
        exec(compile("def forward():\n    return user_line()\n", "/home/me/model.py", "exec"), namespace)
        assert namespace["forward"]() == "model.py:2 in forward"


def test_torch_and_generated_code_are_passed_by() -> None:
    class Module(torch.nn.Module):
        def forward(self):
            generated = build_python(
                "def call():\n    return user_line()\n", {"user_line": user_line}, entry="call", title="t"
            )
            return generated()

    assert Module()().endswith(" in forward")
    assert "test_locate.py" in Module()()


def test_context_managers_are_passed_by() -> None:
    with contextlib.ExitStack() as stack:
        found: list[str] = []
        # Called by contextlib's own code, from here.
        stack.push(type("Asking", (), {"__exit__": lambda *error: found.append(user_line())})())
        namespace = {"__name__": "contextlib"}
        exec(compile("def ask(f):\n    return f()\n", contextlib.__file__, "exec"), namespace)
        assert namespace["ask"](user_line).startswith("test_locate.py")
    with FakeMode():
        assert user_line().startswith("test_locate.py")
    assert UNKNOWN_LINE not in found
