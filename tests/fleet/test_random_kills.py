"""Whatever runs is killed, at any moment, again and again: nothing is lost, and nothing runs twice without a reason."""

from __future__ import annotations

import random
import signal
import time
from pathlib import Path

import psutil
import pytest

from tests.fleet.program_facts import JOBS
from tests.fleet.running import Running, done, gone, kill, rows, start, until

KILLS = 12
AT_A_TIME = 12
"""Jobs that can be in flight at a kill: two workers, ten slots each, less those that wait for one of two children."""


@pytest.mark.full
@pytest.mark.parametrize("seed", range(5))
def test_everything_is_done_however_often_something_is_killed(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    run = _start(tmp_path)
    kills = 0
    while kills < KILLS and len(done(tmp_path)) < JOBS:
        time.sleep(chance.uniform(0.05, 1.0))
        if run.process.poll() is not None:
            break
        family = run.family()
        victim = chance.choice(family)
        try:
            kill(victim)
        except psutil.NoSuchProcess:
            continue
        kills += 1
        if victim.pid == run.process.pid:
            run.process.wait(timeout=10)
            until(lambda family=family: gone(family), "everything ends with its supervisor", 5)  # type: ignore[misc]
            run = _start(tmp_path)
    if run.process.poll() is None:
        run.process.send_signal(signal.SIGTERM)
    run.wait()
    assert _start(tmp_path).wait() == 0
    # The program makes the same jobs at each start, under the same ids: what is missing now was lost.
    assert done(tmp_path) == list(range(JOBS))
    ended = sum(count for (count,) in rows(tmp_path, "select count(*) from runs where what = 'end'"))
    assert JOBS <= ended <= JOBS + kills * AT_A_TIME
    assert kills > 0


def _start(folder: Path) -> Running:
    return start(folder, "--until-idle", "--processes", "2", max_crashes="100")
