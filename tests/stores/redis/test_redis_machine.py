"""The Redis store and the one in memory give the same answers over random histories."""

from __future__ import annotations

import pytest

from tests.stores.redis.conftest import Place
from workfleet.testing.contracts import Opener
from workfleet.testing.contracts.machine import compare


def test_histories(opener: Opener) -> None:
    compare(opener, examples=30)


@pytest.mark.full
@pytest.mark.timeout(900)
def test_many_long_histories(opener: Opener, place: Place) -> None:
    # Where several servers stand for one, only how they are reached differs.
    compare(opener, examples=500 if place.single else 50, steps=60, random=True)
