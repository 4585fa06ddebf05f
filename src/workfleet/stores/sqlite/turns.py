"""Groups of a queue take turns. Knows neither SQL nor claims: what it needs of them it is given."""

from __future__ import annotations

from collections.abc import Callable

from .limiting import Line

Give = Callable[[Line, str, int], int]
"""Hands out up to so many ready jobs of a group, and says how many it were."""


def take_turns(line: Line, wanted: int, give: Give) -> int:
    """Hand out up to so many jobs of a queue, within its limits. Returns how many."""
    wanted = line.room(None, wanted)
    if not line.groups:
        given = give(line, "", wanted) if wanted else 0
        if given:
            line.gave("", given, in_turn=False)
        return given
    left = wanted
    more = []
    # Once around, from group to group by the index; then only where there is still something to have.
    for group in line.ring():
        if left <= 0:
            return wanted
        given, is_more = _turn(line, group, left, give, alone=False)
        left -= given
        if is_more:
            more.append(group)
    while left > 0 and more:
        # A single group has one turn after the other.
        alone, groups, more = len(more) == 1, more, []
        for group in groups:
            given, is_more = _turn(line, group, left, give, alone=alone)
            left -= given
            if is_more:
                more.append(group)
    return wanted - left


def _turn(line: Line, group: str, left: int, give: Give, *, alone: bool) -> tuple[int, bool]:
    """One group's turn. Returns how many jobs it got, and whether it may have more."""
    weight = max(line.limits.of_group(group).weight, 1)
    taken = line.taken if group == line.served and line.taken < weight else 0
    wanted = line.room(group, left if alone else min(left, weight - taken))
    given = give(line, group, wanted) if wanted > 0 else 0
    if given:
        line.gave(group, given, in_turn=True)
    return given, bool(given) and given == wanted
