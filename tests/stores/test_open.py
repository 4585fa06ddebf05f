"""From a URL to a store."""

from __future__ import annotations

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
    with pytest.raises(ConfigError, match=r"memory:// or sqlite:///"):
        await opened(url)


@pytest.mark.parametrize("scheme", ["redis", "rediss", "valkey", "unix"])
async def test_redis_comes_later_and_its_password_is_not_shown(scheme: str) -> None:
    with pytest.raises(ConfigError, match="The Redis store arrives with a later release") as caught:
        await opened(f"{scheme}://user:secret@host/0")
    assert "secret" not in str(caught.value)
