"""From a URL to a store."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from workfleet.clock import SystemClock
from workfleet.errors import ConfigError, StoreUnavailable
from workfleet.model.jobs import JobRecord
from workfleet.ports.stores import Store
from workfleet.stores.open import open_store


async def opened(url: str, *, create: bool = True) -> Store:
    return await open_store(url, app="shop", clock=SystemClock(), create=create)


async def test_memory_is_a_new_store_each_time() -> None:
    first, second = await opened("memory://"), await opened("memory://", create=False)
    await first.jobs.enqueue([JobRecord(id="a", queue="q", name="work")])
    assert (first.url, first.app) == ("memory://", "shop")
    assert await second.jobs.get(["a"]) == [None]


@pytest.mark.parametrize("slashes", ["//", "///"])
async def test_a_path_with_three_or_four_slashes(tmp_path: Path, slashes: str) -> None:
    store = await opened(f"sqlite:{slashes}{tmp_path}/my%20app%3F.db")
    assert (tmp_path / "my app?.db").exists()
    assert store.url == f"sqlite://{tmp_path}/my%20app%3F.db"
    await store.close()
    await (await opened(store.url, create=False)).close()


async def test_create_decides_whether_a_file_is_made(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailable, match="no such file"):
        await opened(f"sqlite://{tmp_path}/a.db", create=False)


@pytest.mark.parametrize(
    "url", ["sqlite://", "sqlite:///", "sqlite://host/a.db", "sqlite:///../a.db", "sqlite:///~/a.db", "sqlite:a.db"]
)
async def test_a_path_that_is_not_absolute(url: str) -> None:
    with pytest.raises(ConfigError, match="absolute path"):
        await opened(url)


@pytest.mark.parametrize("url", ["postgres://db/x", "memory://x", "", "/srv/a.db"])
async def test_an_unknown_store(url: str) -> None:
    with pytest.raises(ConfigError, match=r"memory://, sqlite:///"):
        await opened(url)


@pytest.mark.parametrize("missing", ["redis", "hiredis"])
def test_a_redis_store_without_its_packages_names_the_extra(missing: str) -> None:
    program = (
        f"import asyncio, sys; sys.modules[{missing!r}] = None\n"
        "from workfleet.clock import SystemClock; from workfleet.stores.open import open_store\n"
        "asyncio.run(open_store('rediss://user:secret@host/0', app='x', clock=SystemClock(), create=True))"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert ran.returncode == 1
    said = ran.stderr.strip().splitlines()[-1]
    assert said.endswith('packages that are not installed: pip install "workfleet[redis]"')
    assert "secret" not in ran.stderr


@pytest.mark.parametrize("url", ["redis://user:secret@host/zero", "valkey://user:secret@host/0?wrong=1", "unix://"])
async def test_a_redis_url_that_cannot_be_read_does_not_show_its_password(url: str) -> None:
    with pytest.raises(ConfigError, match="WORKER_STORE") as caught:
        await opened(url)
    assert "secret" not in str(caught.value)
