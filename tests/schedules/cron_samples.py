"""Expressions to try at changes of clocks: written ones for every piece of the syntax, and drawn ones."""

from __future__ import annotations

import random

TEN = (
    "0 * * * *",
    "*/20 0-4 * * *",
    "30 2 * * *",
    "0 0 * * *",
    "15,45 0-3,12,23 * * *",
    "0 0,1,2,3 * * 6,0",
    "59 23 L * *",
    "30 1 1-31 * MON-FRI",
    "*/7 * * * *",
    "1 0 */2 * *",
)
MINUTES = (
    *TEN,
    "* 0-3 * * *",
    "59 */3 * * *",
    "0-59/10 0-23 L * *",
    "1 0 1,15,LW * SUN#1,5L",
    "30 23 */2 * 1-5",
    "5 0-23/2 * 3,4,9-11 *",
    "0 2,3 * * SUN",
    "0 0 13 * FRI",
    "0 0 13 * +FRI",
    "10 1 15W * *",
    "10 1 1W * *",
    "10 1 LW * SAT#L",
    "20 0 L-2 * *",
    "45 */2 ? * SUN-TUE",
    "30 0-2 29 2 *",
    "0,30 * * JAN-JUN *",
    "17 2 28-31 MAR SUN#L",
)
SECONDS = (
    "*/20 * * * * *",
    "15 30 0-3 * * *",
    "0-59/30 0-59/7 0-3 * * *",
    "*/40 5,55 * * * *",
    "0 0 0,1,2,3 * * *",
    "30 59 23 * * *",
    "5 */15 * * * *",
    "59 59 0-23 * * SUN,MON",
    "0 0 0-23 * * * 1970-2199",
    "1 30 * * * * *",
    "1 30 2 * 3,10 * 2000-2037/2",
)


def drawn(draw: random.Random) -> str:
    """A random expression of five fields, which cronsim reads alike."""
    day = draw.choice(["*", "*", "*", _field(draw, 1, 31), "L", "1,L"])
    month = draw.choice(["*", "*", _field(draw, 1, 12)])
    weekday = draw.choice(["*", "*", _field(draw, 0, 7), "MON-FRI", "0#2,5L"])
    return f"{_field(draw, 0, 59)} {_field(draw, 0, 23)} {day} {month} {weekday}"


def drawn_wide(draw: random.Random) -> str:
    """A random expression of five fields with what only ours reads."""
    day = draw.choice(["*", "?", _field(draw, 1, 31), "L", "LW", f"{draw.randint(1, 31)}W", f"L-{draw.randint(1, 9)}"])
    month = draw.choice(["*", "*", "*", _field(draw, 1, 12)])
    weekday = draw.choice(["*", "*", "?", _field(draw, 0, 7), "SUN#L", f"MON#{draw.randint(1, 5)},SAT", "+SUN-TUE"])
    hour = draw.choice([_field(draw, 0, 23), "0-4", "*", "0,1,2,3", "23,0-2"])
    return f"{_field(draw, 0, 59)} {hour} {day} {month} {weekday}"


def many(count: int, seed: int) -> list[str]:
    """The written ones of five fields and drawn ones, `count` in all."""
    draw = random.Random(seed)
    more = [draw.choice([drawn, drawn_wide, drawn_wide])(draw) for _ in range(count - len(MINUTES))]
    return [*MINUTES, *more]


def _field(draw: random.Random, low: int, high: int) -> str:
    return ",".join(_item(draw, low, high) for _ in range(draw.choice([1, 1, 1, 2, 3])))


def _item(draw: random.Random, low: int, high: int) -> str:
    # Two different ends: cronsim reads `8-8/2` as `8-23/2`.
    first, last = sorted(draw.sample(range(low, high + 1), 2))
    step = draw.choice([1, 2, 3, 5, 7])
    choices = ["*", f"*/{step}", f"{first}-{last}", f"{first}-{last}/{step}", str(draw.randint(low, high))]
    return draw.choice(choices)
