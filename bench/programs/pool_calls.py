"""What is asked of every pool, and the two methods that are called in its children. The standard library alone, because
peers' programs import it in environments of their own.

Calls are small ones, each sent on its own: batches (`chunksize`) would measure another thing. Each library gets them in
the way that is fastest for it: one window of many at a time, or all at once. Then single calls, each after the answer
of the one before. Then an argument of 10 MB, whose type and length the child tells: it must arrive as it was sent."""

from __future__ import annotations

import json
import os
import statistics
import time
from collections.abc import Awaitable, Callable, Iterable

CHILDREN = 2
CALLS = int(os.environ.get("BENCH_SIZE", "0"))
SINGLE = max(CALLS // 20, 20)
LARGE = bytes(range(250)) * 40_000
LARGE_TIMES = 11
_WARM = 200


def echo(value: int) -> int:
    """The small call."""
    return value


def kind_and_size(data: bytes) -> tuple[str, int]:
    """The call with a large argument."""
    return type(data).__name__, len(data)


class Taken:
    """What has been measured so far."""

    def __init__(self) -> None:
        self._single_s: list[float] = []
        self._large_s: list[float] = []

    def single(self, began: float) -> None:
        self._single_s.append(time.perf_counter() - began)

    def large(self, began: float, answer: object) -> None:
        self._large_s.append(time.perf_counter() - began)
        if answer != ("bytes", len(LARGE)):
            raise SystemExit(f"the large argument arrived as {answer}")

    def tell(self, seconds: float) -> None:
        """Print the figures; `seconds` is what all the small calls took."""
        p50_s, large_s = statistics.median(self._single_s), statistics.median(self._large_s)
        print(json.dumps({"calls_per_s": CALLS / seconds, "p50_ms": p50_s * 1000, "large_ms": large_s * 1000}))


def check(answers: Iterable[int], count: int) -> None:
    """Raises SystemExit unless these are the answers to the calls 0 to count - 1."""
    if list(answers) != list(range(count)):
        raise SystemExit("the answers are not those to the calls")


def measure(
    every: Callable[[int], Iterable[int]], one: Callable[[int], int], large: Callable[[bytes], tuple[str, int]]
) -> None:
    """`every` makes so many small calls and gives the answers in order."""
    check(every(_WARM), _WARM)
    began = time.perf_counter()
    check(every(CALLS), CALLS)
    seconds, taken = time.perf_counter() - began, Taken()
    for number in range(SINGLE):
        began = time.perf_counter()
        one(number)
        taken.single(began)
    for _ in range(LARGE_TIMES):
        began = time.perf_counter()
        taken.large(began, large(LARGE))
    taken.tell(seconds)


async def measure_async(
    every: Callable[[int], Awaitable[Iterable[int]]],
    one: Callable[[int], Awaitable[int]],
    large: Callable[[bytes], Awaitable[tuple[str, int]]],
) -> None:
    """The same for a pool that is awaited."""
    check(await every(_WARM), _WARM)
    began = time.perf_counter()
    check(await every(CALLS), CALLS)
    seconds, taken = time.perf_counter() - began, Taken()
    for number in range(SINGLE):
        began = time.perf_counter()
        await one(number)
        taken.single(began)
    for _ in range(LARGE_TIMES):
        began = time.perf_counter()
        taken.large(began, await large(LARGE))
    taken.tell(seconds)
