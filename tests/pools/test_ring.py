"""The ring of consistent hashing: even shares, and few keys that move."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter

from workfleet.pools.ring import Ring

KEYS = [f"tenant-{number}" for number in range(20_000)]


def owners(ring: Ring) -> dict[str, int | None]:
    return {key: ring.place_of(key) for key in KEYS}


def test_every_place_gets_about_its_share() -> None:
    for places in (2, 8, 30):
        shares = Counter(owners(Ring(range(places))).values())
        assert set(shares) == set(range(places))
        mean = len(KEYS) / places
        assert 0.7 * mean < min(shares.values()) <= max(shares.values()) < 1.35 * mean


def test_a_new_place_takes_its_share_and_nothing_else_moves() -> None:
    before, ring = owners(Ring(range(8))), Ring(range(8)).with_places(range(9))
    after = owners(ring)
    moved = [key for key in KEYS if before[key] != after[key]]
    assert {after[key] for key in moved} == {8}
    assert 0.07 < len(moved) / len(KEYS) < 0.16  # a ninth
    assert after == owners(Ring(range(9)))


def test_a_place_that_goes_leaves_its_keys_to_all_others_and_nothing_else_moves() -> None:
    ring = Ring(range(8))
    before, after = owners(ring), owners(ring.with_places([place for place in range(8) if place != 3]))
    moved = {key for key in KEYS if before[key] != after[key]}
    assert moved == {key for key in KEYS if before[key] == 3}
    assert {after[key] for key in moved} == {0, 1, 2, 4, 5, 6, 7}


def test_a_place_that_comes_back_gets_its_keys_back() -> None:
    ring = Ring(range(8))
    assert owners(ring.with_places(range(3)).with_places(range(8))) == owners(ring)


def test_the_same_key_has_the_same_place_in_every_process() -> None:
    code = "from workfleet.pools.ring import Ring; print([Ring(range(5)).place_of(f'k{n}') for n in range(40)])"
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert printed.strip() == str([Ring(range(5)).place_of(f"k{number}") for number in range(40)])


def test_edges() -> None:
    assert Ring().place_of("x") is None
    assert {Ring([7]).place_of(key) for key in ("", "x", "\ud800", "ü" * 10_000)} == {7}
    assert set(Ring([3, 5]).places) == {3, 5}
