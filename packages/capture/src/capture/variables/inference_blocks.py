"""What ``torch.inference_mode`` enters and leaves: the object of torch's that does, made in the frame."""

from __future__ import annotations

from capture._torch import inference_guard
from capture.bytecode import build
from capture.errors import Unsupported

from .base import Args, Interpreter, Kwargs, Variable
from .blocks import Block
from .handlers import handles
from .reconstruction import Emitter


class InferenceBlock(Block):
    """One of these."""

    told = "inference mode"

    def __init__(self, mode: bool) -> None:
        self.mode = mode

    def python_type(self) -> type:
        cls: type = inference_guard
        return cls

    def enter(self, m: Interpreter) -> None:
        m.recorder.enter_inference(self, self.mode)

    def leave(self, m: Interpreter) -> None:
        m.recorder.leave_inference(self)

    def reconstruct(self, e: Emitter) -> None:
        e.emit(build.push_callable(build.load_const(inference_guard)), build.load_const(self.mode), build.call(1))


@handles(inference_guard)
def _guard(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    mode = m.builder.to_python(args[0]) if len(args) == 1 and not kwargs else None
    if type(mode) is not bool:
        raise Unsupported("inference mode by other than a bool")
    return m.effects.created(InferenceBlock(mode))
