"""What is wrong with an application is told by the check as by the start: all at once, and before anything runs."""

from __future__ import annotations

import importlib
import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.app.working import Worker, composed, write
from workfleet.app.checking import check
from workfleet.errors import ConfigError

HEAD = """
from __future__ import annotations
from pathlib import Path
from dishka import Provider, Scope, provide
from workfleet import *
from workfleet.model.runs import RunEvent

RAN = []


class Depot:
    def __init__(self) -> None:
        RAN.append("constructor")


class Session: ...


class Provided(Provider):
    @provide(scope=Scope.APP)
    def depot(self) -> Depot:
        RAN.append("provider")
        return Depot()

    @provide(scope=Scope.REQUEST)
    def session(self) -> Session:
        RAN.append("provider")
        return Session()


own = Module("own", providers=[Provided()])


@own.on_init
async def init(depot: Depot) -> None:
    RAN.append("hook")


class Right:
    def __init__(self, depot: Depot) -> None:
        RAN.append("constructor")

    @handler()
    async def right(self, job: Job[int]) -> None: ...

"""

WRONG = {
    "a guard that is for methods of a pool": (
        "@own.handler()\n@retry(attempts=3)\n@timeout('3s')\nasync def f(job: Job[int]) -> None: ...",
        [("f", "@retry is for methods of a pool"), ("f", "@timeout is for methods of a pool")],
    ),
    "a guard's key that names no parameter": (
        "@own.handler()\n@idempotent('{job.data} {other}', ttl='1h')\n@locked('{who}')\n"
        "async def f(job: Job[int]) -> None: ...",
        [("f", "other"), ("f", "who")],
    ),
    "a result that cannot be kept": (
        "@own.handler()\n@idempotent('{job.data}', ttl='1h')\nasync def f(job: Job[int]) -> Depot: ...",
        [("f", "result of")],
    ),
    "a breaker's fallback": (
        "def instead(other: int) -> int: ...\n"
        "@own.handler()\n@circuit_breaker(fallback=instead)\nasync def f(job: Job[int]) -> int: ...",
        [("f", "the fallback instead has a parameter 'other'")],
    ),
    "a pool that is not there": (
        "@own.handler(pool='gpu')\nasync def f(job: Job[int]) -> None: ...\n"
        "@own.schedule(every='1h', pool='tpu')\nasync def g() -> None: ...\n"
        "@own.handler(pool=Depot)\nasync def h(job: Job[int]) -> None: ...",
        [("f", "pool='gpu': there is no such pool. Pools: cpu"), ("g", "pool='tpu'"), ("h", "there is no such pool")],
    ),
    "a handler in a pool of threads": (
        "@process('here', isolation='thread')\nclass Here:\n    @public\n    def work(self) -> None: ...\n"
        "own.jobs.append(Here)\n@own.handler(pool=Here)\nasync def f(job: Job[int]) -> None: ...",
        [("f", "pool='here' has isolation='thread'")],
    ),
    "options of pools": (
        "@process('one', memory='lots', strategy='random', size=0, colour='red')\n"
        "class One:\n    @public\n    def work(self) -> None: ...\n"
        "@process('two', isolation='thread', memory='1GB')\nclass Two:\n    @public\n    def work(self) -> None: ...\n"
        "own.jobs += [One, Two]",
        [
            ("pool one: memory", "lots"), ("pool one: strategy", "it is one of"),
            ("pool one: size", "a whole number of at least 1"), ("pool one: colour", "there is no such option"),
            ("pool two: memory", "cannot hold to it"),
        ],
    ),
    "a pool's key and its methods": (
        "@process('keyed', strategy='consistent_hash', hash_key='{tenant}')\nclass Keyed:\n"
        "    @public\n    @locked('{who}')\n    def work(self, item: int) -> None: ...\n"
        "    @public\n    @retry(attempts=2)\n    def items(self, tenant: int) -> object:\n        yield 1\n"
        "@process('silent')\nclass Silent: ...\n"
        "@process('cpu')\nclass Cpu:\n    @public\n    def work(self) -> None: ...\n"
        "own.jobs += [Keyed, Silent, Cpu]",
        [
            ("Keyed.items", "a generator cannot have guards"), ("Keyed.work", "hash_key of pool 'keyed'"),
            ("Keyed.work", "who"), ("Silent", "no method is @public"), ("pool cpu", "two pools of this name"),
        ],
    ),
    "what a pool's constructor asks for": (
        "@process('here', isolation='thread')\nclass Here:\n    def __init__(self, session: Session) -> None: ...\n"
        "    @public\n    def work(self) -> None: ...\n"
        "@process('there')\nclass There:\n    def __init__(self, what: complex, here: Here) -> None: ...\n"
        "    @public\n    def work(self) -> None: ...\n"
        "own.jobs += [Here, There]",
        [("Here.__init__(session)", "it lives for one job"), ("There.__init__(what)", "nothing provides complex")],
    ),
    "a pool of a class that no module lists": (
        "@process('lost')\nclass Lost:\n    @public\n    def work(self) -> None: ...\n"
        "class Uses:\n    def __init__(self, lost: Pool[Lost]) -> None: ...\n"
        "    @handler()\n    async def f(self, job: Job[int]) -> None: ...\n"
        "own.jobs.append(Uses)\n@own.handler()\nasync def g(job: Job[int], lost: Pool[Lost]) -> None: ...",
        [("injection", "no module lists the @process class Lost"), ("g(lost)", "no module lists the @process class")],
    ),
    "parameters": (
        "@own.handler()\nasync def f(job: Job[int], what: complex) -> None: ...\n"
        "@own.handler()\nasync def g(job: Job[Depot]) -> None: ...\n"
        "@own.handler()\nasync def h(job: Job[int], *things: int) -> None: ...\n"
        "@own.listener('failure')\nasync def told(event: RunEvent, what: complex) -> None: ...\n"
        "@own.listener('failure')\nasync def misled(job: Job[int]) -> None: ...\n"
        "@own.health_indicator('odd')\nasync def odd(what: complex) -> None: ...\n"
        "@own.health_indicator('odd')\nasync def again() -> None: ...\n"
        "@own.on_bootstrap\nasync def boot(session: Session) -> None: ...\n"
        "@own.on_drain\nasync def drain(job: Job[int]) -> None: ...\n",
        [
            ("boot(session)", "it lives for one job"), ("drain", "a hook has no job"),
            ("told(what)", "nothing provides complex"), ("misled", "a listener has no job"),
            ("odd(what)", "nothing provides complex"), ("f(what)", "nothing provides complex"),
            ("g", "is no JSON"), ("h", "*things cannot be injected"),
            ("again", "a health indicator named 'odd' already"),
        ],
    ),
    "timeouts and threads": (
        "@own.handler(timeout='3s')\ndef f(job: Job[int]) -> None: ...\n"
        "@own.handler(on_timeout='abandon')\nasync def g(job: Job[int]) -> None: ...\n"
        "@own.handler()\nasync def h(job: Job[int]) -> object:\n    yield 1\n",
        [("f", "thread"), ("g", "on_timeout='abandon' is for a plain function"), ("h", "it is a generator")],
    ),
    "schedules and policies": (
        "@own.schedule(cron=setting('timezone'))\nasync def f() -> None: ...\n"
        "@own.schedule(every='1h', run_on_start='release')\nasync def g() -> None: ...\n"
        "@own.handler(backoff=own_backoff('nobody'))\nasync def h(job: Job[int]) -> None: ...\n",
        [("f", "schedule 'f'"), ("WORKER_RELEASE", "g runs once per release"), ("h", "there is no backoff 'nobody'")],
    ),
    "providers and services": (
        "class Loop:\n    async def serve(self) -> None: ...\n"
        "class Asks:\n    def __init__(self, what: complex) -> None: ...\n"
        "    @handler()\n    async def f(self, job: Job[int]) -> None: ...\n"
        "own.services = (Loop,)\nown.jobs.append(Asks)",
        [("module 'own', services", "nothing provides Loop"), ("injection", "Asks -> complex: nothing provides")],
    ),
    "a class in the place of a provider": (
        "own.providers += (Provided,)\n@own.handler(pool='gpu')\nasync def f(job: Job[int]) -> None: ...",
        [("providers", "Provided: list an object"), ("f", "pool='gpu'")],
    ),
}  # fmt: skip
"""Applications as code below `HEAD`, and what is wrong with each: the end of its name, and a part of what is said."""
_numbers = itertools.count()


@pytest.fixture
def application(project: Path) -> Callable[[str], Any]:
    """Makes the module of an application of such code."""

    def make(code: str) -> Any:
        name = f"checked_{next(_numbers)}"
        write(project, {name: f"{HEAD}{code}\nown.jobs.append(Right)\napp = App('shop', modules=[own])\n"})
        return importlib.import_module(name)

    return make


def checked(module: Any, **said: Any) -> list[tuple[str, str]]:
    """What the check finds, by the name without the module."""
    with pytest.raises(ConfigError) as caught:
        check(composed(module.app, **said), f"{module.__name__}:app")
    return shown(module, caught.value)


async def refused(module: Any) -> list[tuple[str, str]]:
    """What a start finds, likewise."""
    worker = Worker(module.app, locator=f"{module.__name__}:app")
    with pytest.raises(ConfigError) as caught:
        await worker.runtime.start()
    assert not hasattr(worker.runtime, "store"), "it was refused before the store was opened"
    return shown(module, caught.value)


def shown(module: Any, error: ConfigError) -> list[tuple[str, str]]:
    return [(problem.name.removeprefix(f"{module.__name__}."), str(problem)) for problem in error.problems]


@pytest.mark.parametrize("what", WRONG)
async def test_the_check_tells_all_that_is_wrong_and_the_start_the_same(
    what: str, application: Callable[[str], Any]
) -> None:
    code, expected = WRONG[what]
    module = application(code)
    told = checked(module)
    assert sorted(name for name, _ in told) == sorted(name for name, _ in expected)
    for name, part in expected:
        assert any(name == found and part in text for found, text in told), (name, part, told)
    assert await refused(module) == told
    assert module.RAN == [], "nothing of the application has run"


async def test_mistakes_of_every_kind_are_told_together(application: Callable[[str], Any]) -> None:
    kinds = ("a guard that is for methods of a pool", "options of pools", "what a pool's constructor asks for")
    module = application("\n".join(WRONG[kind][0] for kind in kinds))
    told = checked(module)
    assert sorted(name for name, _ in told) == sorted(name for kind in kinds for name, _ in WRONG[kind][1])
    assert await refused(module) == told
    assert module.RAN == []


def test_what_the_settings_say_of_pools_and_queues_is_checked_with_the_code(
    application: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    module = application(
        "@process('one', min_size=4, max_size=6)\nclass One:\n    @public\n    def work(self) -> None: ...\n"
        "own.jobs.append(One)\n@own.handler(pool=One)\nasync def f(job: Job[int]) -> None: ..."
    )
    check(composed(module.app), f"{module.__name__}:app")
    monkeypatch.setenv("WORKER_POOLS__ONE__SIZE", "2")
    monkeypatch.setenv("WORKER_POOLS__CPU__ISOLATION", "inline")
    monkeypatch.setenv("WORKER_METRICS__STORAGE", "postgres")
    assert [name for name, _ in checked(module, queues="nowhere")] == [
        "pool cpu: isolation", "pool one: size", "queues", "WORKER_METRICS__STORAGE",
    ]  # fmt: skip
    monkeypatch.delenv("WORKER_POOLS__ONE__SIZE")
    monkeypatch.setenv("WORKER_POOLS__ONE__ISOLATION", "thread")
    assert ("f", f"{module.__name__}.f: pool='one' has isolation='thread', and handlers run in pools of processes: "
            "without pool= a plain function runs in a thread of the worker, an async one on its loop") in checked(
        module
    )  # fmt: skip


def test_what_a_factory_will_say_is_not_refused(
    application: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    module = application(
        "def place(depot: Depot) -> dict[str, object]:\n    RAN.append('factory')\n"
        "    return {'storage': 'postgres', 'url': 'postgresql://h/d'}\n"
        "own.imports += (MetricsModule(factory=place),)\n"
    )
    monkeypatch.setenv("WORKER_METRICS__STORAGE", "postgres")
    check(composed(module.app), f"{module.__name__}:app")
    assert module.RAN == []
