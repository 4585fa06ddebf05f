"""Tools for testing applications, and the contracts that every store must meet (`testing.contracts`)."""

from __future__ import annotations

from .clock import TestClock as TestClock
from .fleet import Fleet as Fleet
from .jobs import job as job
from .pools import PoolDouble as PoolDouble

__all__ = ["Fleet", "PoolDouble", "TestClock", "job"]
