"""Tools for testing applications, and the contracts that every store must meet (`testing.contracts`)."""

from __future__ import annotations

from .clock import TestClock as TestClock
from .faults import FaultyStore as FaultyStore
from .fleet import Fleet as Fleet
from .fleet import Run as Run
from .jobs import Said as Said
from .jobs import job as job
from .jobs import said as said
from .pools import PoolDouble as PoolDouble

__all__ = ["FaultyStore", "Fleet", "PoolDouble", "Run", "Said", "TestClock", "job", "said"]
