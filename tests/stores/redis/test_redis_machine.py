"""The Redis store and the one in memory give the same answers over random histories."""

from __future__ import annotations

from workfleet.testing.contracts import Opener
from workfleet.testing.contracts.machine import compare


def test_histories(opener: Opener) -> None:
    compare(opener, examples=30)
