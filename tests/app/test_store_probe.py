"""The probe of the store: whether it works, and whether it has for a while."""

from __future__ import annotations

from workfleet.app.health import StoreProbe
from workfleet.clock import SystemClock
from workfleet.stores.open import open_store
from workfleet.testing import FaultyStore


class Hands(SystemClock):
    """A clock whose monotonic time is set by hand."""

    at = 100.0

    def monotonic(self) -> float:
        return self.at


async def test_it_is_steady_again_a_while_after_trouble() -> None:
    clock = Hands()
    store = FaultyStore(await open_store("memory://", app="shop", clock=clock, create=True))
    probe = StoreProbe(store, "shop", clock, lease_ms=30_000)
    await probe.once()
    assert (probe.steady, probe.error) == (True, None)  # nobody has waited for the store yet
    store.fail("jobs.claim", number=2)
    await probe.once()
    assert not probe.steady
    assert probe.error is not None
    clock.at += 4
    await probe.once()
    assert probe.steady  # too short to have cost a lease
    store.fail("jobs.claim", number=4)
    await probe.once()
    clock.at += 6
    await probe.once()
    clock.at += 7.9
    await probe.once()
    assert (probe.steady, probe.error) == (False, None)
    clock.at += 0.2
    assert probe.steady
    await store.close()


async def test_a_slow_answer_is_trouble_too() -> None:
    clock = Hands()
    store = await open_store("memory://", app="shop", clock=clock, create=True)
    probe = StoreProbe(store, "shop", clock, lease_ms=30_000)
    claim = store.jobs.claim

    async def slow(request: object) -> object:
        clock.at += 6
        return await claim(request)  # type: ignore[arg-type]

    store.jobs.claim = slow  # type: ignore[method-assign,assignment]
    await probe.once()
    assert (probe.steady, probe.error) == (False, None)
    clock.at += 8
    assert probe.steady
    await store.close()
