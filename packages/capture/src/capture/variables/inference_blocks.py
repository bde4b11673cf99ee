"""What ``torch.inference_mode`` enters and leaves: the object of torch's that does, made in the frame."""

from __future__ import annotations

from collections.abc import Iterable

from capture._torch import inference_guard
from capture.bytecode import build
from capture.errors import Unsupported

from .base import Args, Interpreter, Kwargs, Variable
from .constants import BoundBuiltin, Constant
from .handlers import handles
from .reconstruction import Emitter


class InferenceBlock(Variable):
    """One that is not entered wherever the graph ends."""

    manages_context = True

    def __init__(self, mode: bool) -> None:
        self.mode = mode

    def python_type(self) -> type:
        cls: type = inference_guard
        return cls

    def attribute(self, m: Interpreter, name: str) -> Variable:
        if name in ("__enter__", "__exit__"):
            return BoundBuiltin(self, name)
        return super().attribute(m, name)

    def method(self, m: Interpreter, name: str, args: Args, kwargs: Kwargs) -> Variable:
        if name == "__enter__" and not args and not kwargs:
            m.recorder.enter_inference(self, self.mode)
        elif name == "__exit__" and len(args) == 3 and not kwargs:
            m.recorder.leave_inference(self)
        else:
            raise Unsupported(f"{name} of inference mode")
        return Constant(None)

    def made_of(self) -> Iterable[Variable]:
        return ()

    def reconstruct(self, e: Emitter) -> None:
        e.emit(build.push_callable(build.load_const(inference_guard)), build.load_const(self.mode), build.call(1))


@handles(inference_guard)
def _guard(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    mode = m.builder.to_python(args[0]) if len(args) == 1 and not kwargs else None
    if type(mode) is not bool:
        raise Unsupported("inference mode by other than a bool")
    return m.effects.created(InferenceBlock(mode))
