"""What the tests know of `program.py`, which they cannot import: it reads its folder from the environment."""

from __future__ import annotations

JOBS = 40
