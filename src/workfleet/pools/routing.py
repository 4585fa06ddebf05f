"""Which calls wait where, and who is next: in one line for any child, or, where calls have keys, in one for each place.

One object per pool, its desk's own. Which of several children is taken is the strategy's.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable
from typing import Final, Protocol

from workfleet.pools.calls import Call
from workfleet.pools.marks import Strategy
from workfleet.pools.member import Member
from workfleet.pools.pace import Pace
from workfleet.pools.ring import Ring
from workfleet.pools.strategies import Draw, LeastBusy, Pick, PowerOfTwo, RoundRobin


class Routing(Protocol):
    """The calls that wait, and who is next. It never gives a call away itself."""

    def __len__(self) -> int:
        """How many calls wait."""
        ...

    def offer(self, call: Call) -> Member | None:
        """The child that gets this new call now; None where it must wait."""
        ...

    def wait(self, call: Call, limit: int) -> bool:
        """Lets it wait as the last; False where that would be more than `limit`."""
        ...

    def wait_first(self, call: Call) -> None:
        """Lets it wait as the first, whatever the limit."""
        ...

    def next(self, freed: Member | None) -> tuple[Call, Member] | None:
        """Takes out the next waiting call that a child has room for. `freed` is the only child that may have room."""
        ...

    def drop(self, call: Call) -> bool:
        """Takes it out; False where it does not wait."""
        ...

    def clear(self) -> list[Call]:
        """Takes out all, in their order."""
        ...

    def places(self, numbers: Collection[int]) -> None:
        """The numbers of the places that the pool has now, whether there is a child in them or not."""
        ...

    def waiting(self) -> Iterable[deque[Call]]:
        """The lines that are not empty."""
        ...

    def ahead(self, call: Call) -> tuple[deque[Call], int]:
        """The line that it would wait in, and how many children serve that."""
        ...


class OneLine:
    """All calls wait in one line for any child."""

    def __init__(self, members: list[Member], pick: Pick) -> None:
        self._members = members
        self._pick = pick
        self._line: deque[Call] = deque()

    def __len__(self) -> int:
        return len(self._line)

    def offer(self, call: Call) -> Member | None:
        return None if self._line else self._pick(call, self._members)

    def wait(self, call: Call, limit: int) -> bool:
        if len(self._line) >= limit:
            return False
        self._line.append(call)
        return True

    def wait_first(self, call: Call) -> None:
        self._line.appendleft(call)

    def next(self, freed: Member | None) -> tuple[Call, Member] | None:
        if self._line and (member := self._pick(self._line[0], self._members)) is not None:
            return self._line.popleft(), member
        return None

    def drop(self, call: Call) -> bool:
        if call in self._line:
            self._line.remove(call)
            return True
        return False

    def clear(self) -> list[Call]:
        calls, self._line = list(self._line), deque()
        return calls

    def places(self, numbers: Collection[int]) -> None:
        pass

    def waiting(self) -> Iterable[deque[Call]]:
        return (self._line,) if self._line else ()

    def ahead(self, call: Call) -> tuple[deque[Call], int]:
        return self._line, len(self._members)


_ANY: Final = -1
"""The line of calls without a key."""


class LinePerPlace:
    """Calls with a key wait for the child in that key's place, those without one for any.

    A call for a busy child holds up only calls of keys that live there too. While a place's child is replaced its calls
    wait for the new one: going elsewhere would move the keys of a child that dies of one of them to the next, and so on
    through the whole pool. Only a place that is given up leaves its keys to the others.
    """

    def __init__(self, members: list[Member], pace: Pace) -> None:
        self._members = members
        self._pace = pace
        self._least_busy = LeastBusy(pace)
        self._ring = Ring()
        self._lines: dict[int, deque[Call]] = {}
        self._waiting = 0

    def __len__(self) -> int:
        return self._waiting

    def _place(self, call: Call) -> int:
        place = None if call.key is None else self._ring.place_of(call.key)
        return _ANY if place is None else place

    def offer(self, call: Call) -> Member | None:
        place = self._place(call)
        return None if self._lines.get(place) else self._free(place, call)

    def _free(self, place: int, call: Call) -> Member | None:
        """The child that gets the first call of this place's line now."""
        if place == _ANY:
            return self._least_busy(call, self._members) if call.key is None else None
        return self._least_busy(call, [member for member in self._members if member.slot == place])

    def wait(self, call: Call, limit: int) -> bool:
        """Each place has its share of the limit, so that one busy key cannot fill the queue for all."""
        place = self._place(call)
        line = self._lines.setdefault(place, deque())
        if len(line) >= (limit if place == _ANY else -(-limit // len(self._ring.places))):
            return False
        line.append(call)
        self._waiting += 1
        return True

    def wait_first(self, call: Call) -> None:
        self._lines.setdefault(self._place(call), deque()).appendleft(call)
        self._waiting += 1

    def next(self, freed: Member | None) -> tuple[Call, Member] | None:
        if not self._waiting:
            return None
        places = list(self._lines) if freed is None else (freed.slot, _ANY)
        lines = [(line[0].id, place, line) for place in places if (line := self._lines.get(place))]
        for _, place, line in sorted(lines, key=_age):  # the one that waits longest first: neither kind starves
            member = self._free(place, line[0])
            if member is not None:
                self._waiting -= 1
                return line.popleft(), member
        return None

    def drop(self, call: Call) -> bool:
        line = self._lines.get(self._place(call))
        if line is None or call not in line:
            return False
        line.remove(call)
        self._waiting -= 1
        return True

    def clear(self) -> list[Call]:
        calls = sorted((call for line in self._lines.values() for call in line), key=lambda call: call.id)
        self._lines, self._waiting = {}, 0
        return calls

    def places(self, numbers: Collection[int]) -> None:
        """Calls that wait go to where their keys live from now on, in the same order."""
        if set(numbers) == set(self._ring.places):
            return
        self._ring = self._ring.with_places(numbers)
        before, self._lines = self._lines, {}
        for line in before.values():
            for call in line:
                self._lines.setdefault(self._place(call), deque()).append(call)

    def waiting(self) -> Iterable[deque[Call]]:
        return [line for line in self._lines.values() if line]

    def ahead(self, call: Call) -> tuple[deque[Call], int]:
        place = self._place(call)
        return self._lines.get(place, deque()), len(self._members) if place == _ANY else 1


def _age(line: tuple[int, int, deque[Call]]) -> int:
    return line[0]


def routing(strategy: Strategy, members: list[Member], pace: Pace, draw: Draw) -> Routing:
    """The routing of a strategy over `members`, a list that its owner changes."""
    match strategy:
        case "least_busy":
            return OneLine(members, LeastBusy(pace))
        case "round_robin":
            return OneLine(members, RoundRobin(pace))
        case "power_of_two":
            return OneLine(members, PowerOfTwo(pace, draw))
        case "consistent_hash":
            return LinePerPlace(members, pace)
