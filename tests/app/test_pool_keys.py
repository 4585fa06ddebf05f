"""Keys of guards on pool methods: checked when the application starts."""

from importlib import import_module
from pathlib import Path

import pytest

from tests.app.working import start_problems, write

pytestmark = pytest.mark.usefixtures("project")


async def test_a_key_of_a_pool_method_that_names_no_parameter_stops_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    write(
        tmp_path,
        {
            "badkey": """
from workfleet import App, Job, Pool, handler, idempotent, process, public
@process()
class W:
    @public
    @idempotent("{nothing}")
    def work(self, key: str) -> int: ...
class Uses:
    def __init__(self, pool: Pool[W]) -> None: ...
    @handler()
    async def use(self, job: Job[int]) -> None: ...
app = App("badkey", jobs=[W, Uses])
"""
        },
    )
    said = await start_problems(import_module("badkey").app, heartbeat_enabled=False)
    assert list(said) == ["badkey.W.work"]
    assert "names no parameter; there are key" in said["badkey.W.work"]
