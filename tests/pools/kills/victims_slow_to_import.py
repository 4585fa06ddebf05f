"""The first child of all never ends importing this. The folder where they meet is in the environment."""

from __future__ import annotations

import os

from tests.pools.kills.victims import Victim, for_ever
from tests.pools.kills.victims_slow import first_to

if first_to(os.environ["WORKFLEET_TEST_FOLDER"], "mark"):
    for_ever()


def make() -> Victim:
    return Victim()
