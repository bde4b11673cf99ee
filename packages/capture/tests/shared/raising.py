# ruff: noqa: E722
"""Programs of a tensor, integers and a list, which raise by what is in the integers: handled or not, with effects before and after."""

from __future__ import annotations

import contextlib
import io
import traceback
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.nn import functional as F

PROGRAMS: list[Callable[..., Any]] = []
#: For programs to change.
STATE: dict[str, Any] = {}


def program(fn: Callable[..., Any]) -> Callable[..., Any]:
    PROGRAMS.append(fn)
    return fn


@program
def handled(x: Any, i: Any, log: Any) -> Any:
    try:
        log.append("before")
        y = x[i] * 2
        log.append("after")
    except IndexError as error:
        log.append(str(error))
        y = x - 1
    finally:
        log.append("finally")
    return y


class Suppressing:
    def __init__(self, log: Any) -> None:
        self.log = log

    def __enter__(self) -> None:
        self.log.append("enter")

    def __exit__(self, kind: Any, value: Any, traceback: Any) -> bool:
        self.log.append(kind and kind.__name__)
        return True


@program
def suppressed_by_an_exit(x: Any, i: Any, log: Any) -> Any:
    with Suppressing(log):
        x = x[i] + 1
    return x


@program
def suppressed_by_the_library(x: Any, i: Any, log: Any) -> Any:
    with contextlib.suppress(LookupError):
        x = x[i] + 1
    return x


@contextlib.contextmanager
def swallowing() -> Iterator[None]:
    with contextlib.suppress(IndexError):
        yield


@program
def swallowed_after_a_write(x: Any, i: Any, log: Any) -> Any:
    x.add_(1)
    with swallowing():
        x = x[i]
    return x


@program
def effects_before_and_after(x: Any, i: Any, log: Any) -> Any:
    STATE["count"] = STATE.get("count", 0) + 1
    log.append(x + 1)
    y = x[i] + 1
    log.append(y)
    return y


@program
def printed_before(x: Any, i: Any, log: Any) -> Any:
    print("printed")
    return x[i] * 2


@program
def finally_unhandled(x: Any, i: Any, log: Any) -> Any:
    try:
        return x[i] * 2
    finally:
        STATE["finally"] = STATE.get("finally", 0) + 1


@program
def written_before(x: Any, i: Any, log: Any) -> Any:
    x.add_(1)
    try:
        return x[i] * 2
    except IndexError:
        return x - 1


@program
def written_before_and_handled_by_all(x: Any, i: Any, log: Any) -> Any:
    x.add_(1)
    try:
        y = x[i]
    except:
        y = x * 2
    return y


@program
def written_before_and_handled_second(x: Any, i: Any, log: Any) -> Any:
    x.add_(1)
    try:
        y = x[i]
    except (KeyError, TypeError):
        y = x * 2
    except (AttributeError, LookupError):
        y = x * 5
    return y


@program
def written_in_a_finally(x: Any, i: Any, log: Any) -> Any:
    x.add_(1)
    try:
        try:
            y = x[i]
        finally:
            x.mul_(2)
    except torch.OutOfMemoryError:
        y = x - 1
    except IndexError:
        y = x * 2
    return y


@program
def written_beside_effects(x: Any, i: Any, log: Any) -> Any:
    x.add_(1)
    log.append(x.sum())
    y = x[i] * 2
    x.mul_(3)
    log.append(5)
    return y


@program
def written_where_places_are(x: Any, i: Any, log: Any) -> Any:
    try:
        x[torch.zeros_like(i)] = 7
        x[i] = 5
    except IndexError as error:
        log.append(str(error))
    return x + 1


@program
def a_scatter_in_place(x: Any, i: Any, log: Any) -> Any:
    try:
        x.scatter_(0, i, torch.ones(2))
    except RuntimeError as error:
        log.append(str(error))
    return x + 1


@program
def nobody_reads_the_result(x: Any, i: Any, log: Any) -> Any:
    try:
        x[i]
    except IndexError:
        return x + 2
    return x + 1


@program
def nobody_reads_nor_handles(x: Any, i: Any, log: Any) -> Any:
    (x * 2)[i]
    return x + 1


@program
def a_size_of_the_result_is_read(x: Any, i: Any, log: Any) -> Any:
    try:
        return x + x[i].shape[0]
    except IndexError:
        return x + 2


@program
def within_no_grad(x: Any, i: Any, log: Any) -> Any:
    with torch.no_grad():
        y = x[i]
    return y * 2


@program
def within_autocast(x: Any, i: Any, log: Any) -> Any:
    with torch.autocast("cpu"):
        y = x.reshape(2, 3) @ x.reshape(3, 2)
        return x[i], y


def helper(x: Any, i: Any, log: Any) -> Any:
    log.append("in")
    return x[i] * 3


@program
def called(x: Any, i: Any, log: Any) -> Any:
    try:
        y = helper(x, i, log)
    except IndexError:
        log.append("caught")
        y = x
    return y


@program
def called_unhandled(x: Any, i: Any, log: Any) -> Any:
    y = x + 1

    y = helper(y, i, log)

    return y


def generator(x: Any, i: Any, log: Any) -> Any:
    try:
        yield x[i]
    except IndexError:
        log.append("in the generator")
        yield x
    finally:
        log.append("closed")


@program
def a_generator_handles(x: Any, i: Any, log: Any) -> Any:
    return [y * 2 for y in generator(x, i, log)]


@program
def cells(x: Any, i: Any, log: Any) -> Any:
    n = 0

    def more() -> None:
        nonlocal n
        n += 1

    more()
    try:
        y = x[i]
    except IndexError:
        more()
        y = x
    more()
    return y, n, lambda: x


@program
def of_all_kinds_of_parameters(*args: Any, **kwargs: Any) -> Any:
    def inner(x: Any, /, *rest: Any, i: Any, flag: bool = True, **more: Any) -> Any:
        try:
            return x[i] + flag
        except IndexError:
            return x - 5, rest, more, lambda: (x, i)

    return inner(args[0], 3, i=args[1], z=1)[0]


@program
def random_numbers(x: Any, i: Any, log: Any) -> Any:
    a = F.dropout(x, 0.5)
    try:
        y = x[i]
    except IndexError:
        y = x
    return y, a, torch.rand(2)


@program
def raised_from(x: Any, i: Any, log: Any) -> Any:
    try:
        return x[i] + 1
    except IndexError as error:
        raise ValueError("outer") from error


@program
def after_breaks(x: Any, i: Any, log: Any) -> Any:
    y = x * 2
    compile("0", "", "eval")
    log.append(1)
    try:
        y = y[i]
    except IndexError:
        log.append(2)
    compile("0", "", "eval")
    try:
        y = y[i] + 1
    except IndexError:
        log.append(3)
    return y


@program
def a_break_within_the_block(x: Any, i: Any, log: Any) -> Any:
    try:
        y = x * 2
        compile("0", "", "eval")
        log.append(1)
        y = y[i] * 2
        log.append(3)
    except IndexError as error:
        log.append(str(error))
    finally:
        log.append("finally")
    return y


@program
def raises_in_a_handler(x: Any, i: Any, log: Any) -> Any:
    try:
        return log.pop()
    except IndexError:
        return x[i] * 2


@program
def in_each_round(x: Any, i: Any, log: Any) -> Any:
    for k in range(3):
        try:
            y = x[i - k]
        except IndexError:
            log.append(k)
            continue
        else:
            log.append(y)
        finally:
            log.append("finally")
    return log


@program
def in_a_group(x: Any, i: Any, log: Any) -> Any:
    try:
        log.append(2)
        x = x[i]
    except* IndexError as group:
        log.append(len(group.exceptions))
    return x


@program
def beneath_vmap(x: Any, i: Any, log: Any) -> Any:
    return torch.func.vmap(lambda a: a[i])(x.reshape(2, 3).repeat(1, 2)).sum()


@program
def differentiated(x: Any, i: Any, log: Any) -> Any:
    w = torch.nn.Parameter(torch.ones(6))
    (x * w).sum().backward()
    log.append(w.grad.clone())
    (x * w)[i].sum().backward()
    return w.grad


@program
def embedded(x: Any, i: Any, log: Any) -> Any:
    try:
        return F.embedding(i, x.reshape(6, 1)) * 2
    except IndexError as error:
        return str(error)


@program
def a_class_out_of_range(x: Any, i: Any, log: Any) -> Any:
    try:
        return F.cross_entropy(x.expand(2, 6), i)
    except (IndexError, RuntimeError) as error:
        return type(error).__name__, str(error)


@program
def gathered(x: Any, i: Any, log: Any) -> Any:
    try:
        return x.gather(0, i)
    except RuntimeError as error:
        return str(error)


@program
def divided(x: Any, i: Any, log: Any) -> Any:
    try:
        return 5 // (i - 9)
    except (RuntimeError, ZeroDivisionError) as error:
        return type(error).__name__, str(error)


@program
def not_positive_definite(x: Any, i: Any, log: Any) -> Any:
    return torch.linalg.cholesky(torch.eye(2) * (5 - i)).sum() + len(log)


@program
def classes_out_of_range(x: Any, i: Any, log: Any) -> Any:
    x.add_(1)
    try:
        return F.one_hot(i, 6)
    except RuntimeError as error:
        return str(error)


@program
def a_range_that_is_not_finite(x: Any, i: Any, log: Any) -> Any:
    x.add_(1)
    try:
        return torch.histc(torch.where(i[1] > 5, x / 0, x))
    except RuntimeError as error:
        return str(error)


@program
def written_expanded(x: Any, i: Any, log: Any) -> Any:
    return of_expanded(x.expand(3, 6), i, log)


def of_expanded(x: Any, i: Any, log: Any) -> Any:
    compile("0", "", "eval")
    x[0].add_(1)
    try:
        return x[0][i]
    except IndexError:
        return x * 2


@program
def running_statistics(x: Any, i: Any, log: Any) -> Any:
    mean, variance = torch.zeros(3), torch.ones(3)
    compile("0", "", "eval")
    y = F.batch_norm(x.reshape(2, 3), mean, variance, training=True)
    try:
        log.append(y.reshape(6)[i].shape)
        y = y.reshape(6)[i].sum() * 0
    except IndexError:
        y = mean * 2
    return y, mean, variance


@program
def asserted(x: Any, i: Any, log: Any) -> Any:
    log.append(1)
    torch._assert_async((i < 6).all())
    return x + 1


GOOD, BAD = torch.tensor([0, 1]), torch.tensor([0, 9])


def plain(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.dtype, value.tolist()
    if isinstance(value, dict):
        return {name: plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    return "a function" if callable(value) else value


def told(fn: Callable[..., Any], i: torch.Tensor) -> list[Any]:
    """All that can be seen of one call."""
    torch.manual_seed(0)
    STATE.clear()
    x, log, out = torch.arange(6.0), [], io.StringIO()
    found: list[Any] = []
    try:
        with contextlib.redirect_stdout(out):
            found.append(plain(fn(x, i, log)))
    except Exception as caught:
        error: BaseException | None = caught
        while error is not None:
            lines = [
                (f.filename, f.lineno, f.name) for f in traceback.extract_tb(error.__traceback__) if f.name != "told"
            ]
            found.append((type(error), str(error), lines, type(error.__cause__), error.__suppress_context__))
            error = error.__context__
    settings = torch.is_grad_enabled(), torch.is_autocast_enabled("cpu"), torch.autocast_increment_nesting()
    torch.autocast_decrement_nesting()
    return [*found, plain(x), plain(log), plain(STATE), out.getvalue(), *settings, torch.rand(1).item()]
