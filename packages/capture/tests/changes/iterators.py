"""Iterators and generators."""

from __future__ import annotations

import itertools
import types

from .table import family, vector

program = family("iterators")


def steps(call, f, items):
    """``f`` takes an iterator over ``items``; what it leaves there is seen."""
    for _ in range(2):
        source = iter(list(items))
        call(f, vector(), source)
        call.note(list(source))
    kept = list(items)

    def own(x):
        source = iter(kept)
        return f(x, source), list(source)

    call(own, vector())
    call(own, vector())


@program
def pairwise(call):
    def f(x, source):
        pairs = itertools.pairwise(source)
        a, b = next(pairs)
        return x * a + b + next(source)

    steps(call, f, [1, 2, 3, 4, 5])


@program
def pairwise_twice_over_one_source(call):
    def f(x, source):
        seen = []
        for a, b in itertools.pairwise(source):
            seen.append((a, b, next(source, None)))
        return x + len(seen), seen

    steps(call, f, range(8))


@program
def longest_zip(call):
    def f(x, source):
        both = itertools.zip_longest(source, source, [1, 2], fillvalue=0)
        a, b, c = next(both)
        return x * a + b + c + next(source), list(both)

    steps(call, f, range(1, 8))


@program
def part(call):
    def f(x, source):
        some = itertools.islice(source, 3)
        first = next(some)
        return x * first + next(source), list(some)

    steps(call, f, range(1, 8))


@program
def part_with_steps(call):
    def f(x, source):
        some = itertools.islice(source, 1, 6, 2)
        first = next(some)
        between = next(source)
        return x * first + between, list(some)

    steps(call, f, range(10))


@program
def part_left_unread(call):
    def f(x, source):
        itertools.islice(source, 3)
        return x + 1

    steps(call, f, range(5))


@program
def accumulation(call):
    def f(x, source):
        sums = itertools.accumulate(source)
        first = next(sums)
        return x * first + next(source), next(sums)

    steps(call, f, range(1, 8))


@program
def accumulation_with_function_and_initial(call):
    def f(x, source):
        sums = itertools.accumulate(source, lambda a, b: a * b + 1, initial=5)
        return x * next(sums) + next(source), list(sums)

    steps(call, f, range(1, 6))


@program
def accumulation_function_has_effects(call):
    seen = []
    call.state = seen

    def add(a, b):
        seen.append((a, b))
        return a + b

    def f(x, source):
        sums = itertools.accumulate(source, add)
        next(sums)
        seen.append("first")
        next(sums)
        return x + len(seen)

    steps(call, f, range(1, 6))


@program
def chained(call):
    def f(x, source):
        both = itertools.chain(source, source)
        return x * next(both) + next(source), list(both)

    steps(call, f, range(1, 6))


@program
def chained_from_iterable(call):
    def f(x, source):
        both = itertools.chain.from_iterable([v, v + 1] for v in source)
        return x * next(both) + next(source), list(both)

    steps(call, f, range(1, 6))


@program
def doubled(call):
    def f(x, source):
        left, right = itertools.tee(source)
        return x * next(left) + next(left) + next(right), next(source), list(left), list(right)

    steps(call, f, range(1, 8))


@program
def zipped(call):
    def f(x, source):
        both = zip(source, source)
        a, b = next(both)
        return x * a + b + next(source), list(both)

    steps(call, f, range(1, 8))


@program
def zipped_strictly(call):
    def f(x, source):
        try:
            return x + len(list(zip(source, [1, 2], strict=True)))
        except ValueError as error:
            return x, str(error)

    steps(call, f, range(4))
    steps(call, f, range(2))


@program
def mapped_and_filtered(call):
    seen = []
    call.state = seen

    def note(v):
        seen.append(v)
        return v * 2

    def f(x, source):
        found = filter(lambda v: v > 2, map(note, source))
        return x * next(found) + next(source), list(found)

    steps(call, f, range(1, 6))


@program
def enumerated(call):
    def f(x, source):
        numbered = enumerate(source, 5)
        i, v = next(numbered)
        return x * i + v + next(source), list(numbered)

    steps(call, f, range(1, 6))


@program
def taken_while(call):
    def f(x, source):
        return x + len(list(itertools.takewhile(lambda v: v < 3, source))), next(source)

    steps(call, f, range(8))


@program
def dropped_while(call):
    def f(x, source):
        rest = itertools.dropwhile(lambda v: v < 3, source)
        return x * next(rest) + next(source), list(rest)

    steps(call, f, range(8))


@program
def grouped(call):
    def f(x, source):
        return x + 1, [(key, list(items)) for key, items in itertools.groupby(source, lambda v: v // 3)]

    steps(call, f, range(8))


@program
def batches(call):
    def f(x, source):
        found = iter(lambda: tuple(itertools.islice(source, 2)), ())
        return x + len(next(found)), next(source), list(found)

    steps(call, f, range(8))


@program
def repeated_cycled_and_compressed(call):
    def f(x, source):
        around = itertools.cycle(source)
        seen = [next(around) for _ in range(5)]
        return x + sum(itertools.repeat(2, 3)), seen, list(itertools.compress([1, 2, 3], [1, 0, 1]))

    steps(call, f, range(3))


@program
def products(call):
    def f(x, source):
        found = itertools.product(source, [1, 2])
        return x + len(list(source)), list(found), list(itertools.combinations([1, 2, 3], 2))

    steps(call, f, range(3))


@program
def starred(call):
    def f(x, source):
        return x + 1, list(map(lambda a, b: a * b, source, [1, 2, 3]))

    steps(call, f, range(5))


@program
def source_mutated_while_walked(call):
    def f(x, items):
        seen = []
        for item in items:
            seen.append(item)
            if len(items) < 6:
                items.append(item * 2)
        return x + len(seen), seen

    call(f, vector(), [1, 2])
    call(f, vector(), [1, 2])


@program
def pairs_of_a_list_mutated_between(call):
    def f(x, items):
        pairs, some = itertools.pairwise(items), itertools.islice(items, 1, None)
        sums = itertools.accumulate(items)
        first = next(pairs), next(some), next(sums)
        items[1] = 50
        items.append(7)
        return x + 1, first, list(pairs), list(some), list(sums)

    call(f, vector(), [1, 2, 3])
    call(f, vector(), [1, 2, 3])


@program
def raises_in_the_middle(call):
    def items():
        yield 1
        yield 2
        raise ValueError("items")

    def f(x):
        some = itertools.islice(items(), 5)
        first = next(some)
        try:
            return x, list(some)
        except ValueError as error:
            return x * first, str(error)

    def g(x):
        return (
            x + sum(itertools.islice(items(), 2)),
            next(itertools.pairwise(items())),
            next(itertools.accumulate(items())),
        )

    call(f, vector())
    call(g, vector())


@program
def generator_argument(call):
    def numbers():
        yield from (1, 2, 3, 4)

    def f(x, source):
        return x * next(source)

    source = numbers()
    for _ in range(5):
        call(f, vector(), source)


@program
def generator_held(call):
    def numbers():
        k = 1
        while True:
            k = (yield k) or k + 1

    space = types.SimpleNamespace(source=numbers())

    def f(x):
        return x * next(space.source)

    call(f, vector())
    call(f, vector())
    space.source.send(10)
    call(f, vector())
    space.source.close()
    call(f, vector())
    space.source = numbers()
    call(f, vector())


@program
def iterator_held(call):
    space = types.SimpleNamespace(source=iter([2, 3, 4]))

    def f(x):
        return x * next(space.source, 9)

    for _ in range(4):
        call(f, vector())
    space.source = iter([5])
    call(f, vector())


@program
def count_held(call):
    numbers = itertools.count(2)

    def f(x):
        return x * next(numbers)

    call(f, vector())
    next(numbers)
    call(f, vector())
    call.note(next(numbers))


@program
def held_lazy_iterators(call):
    for make in (
        itertools.pairwise,
        itertools.accumulate,
        lambda s: itertools.islice(s, 4),
        lambda s: itertools.zip_longest(s, s),
    ):
        source = iter(range(1, 9))
        lazy = make(source)

        def f(x, lazy=lazy):
            item = next(lazy)
            return x * (item if isinstance(item, int) else item[0]), item

        call(f, vector())
        next(source)
        call(f, vector())
        call.note(list(source))


@program
def lazy_iterator_returned(call):
    def f(x, source):
        return x + 1, itertools.islice(source, 2), itertools.pairwise(source), itertools.accumulate(source)

    source = iter(range(1, 9))
    _, some, pairs, sums = f(vector(), source)
    call.note(next(some), next(pairs), next(sums), next(source), list(some), next(pairs))


@program
def lazy_iterator_returned_captured(call):
    for make in (
        lambda s: itertools.islice(s, 1, 4), lambda s: itertools.pairwise(s), lambda s: itertools.accumulate(s, initial=3),
        lambda s: itertools.zip_longest(s, [1], fillvalue=0), lambda s: itertools.chain(s, s),
    ):  # fmt: skip

        def f(x, source, make=make):
            lazy = make(source)
            first = next(lazy)
            return x + 1, first, types.SimpleNamespace(items=lazy)

        source = iter(range(1, 9))
        space = types.SimpleNamespace()

        def g(x, source, space=space, f=f):
            y, first, held = f(x, source)
            space.items = held.items
            return y, first

        call(g, vector(), source)
        call.note(next(source), next(space.items), next(source, None))
