"""Every option of a pool through its three places: the module, `@process`, and the operator's settings by its name."""

from __future__ import annotations

from functools import reduce
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.app.working import Worker, start_problems
from workfleet import App, Pools, PoolsModule, process, public
from workfleet.errors import ConfigError
from workfleet.modules.builtin import PoolsOptions
from workfleet.pools.marks import ProcessOptions
from workfleet.pools.options import PoolOptions
from workfleet.settings.pools import PoolOverride, PoolsSettings

pytestmark = pytest.mark.usefixtures("project")


class Row(NamedTuple):
    """An option, what is said of it in the module, in the decorator and in the environment, and what comes of each."""

    option: str
    module: Any
    code: Any
    environ: str
    field: str
    expected: tuple[Any, Any, Any]


ROWS = [
    Row("size", 3, 5, "6", "size", (3, 5, 6)),
    Row("memory", "200MB", "300MB", "400MB", "memory_bytes", (200_000_000, 300_000_000, 400_000_000)),
    Row("soft_memory", "90MB", "91MB", "92MB", "soft_memory_bytes", (90_000_000, 91_000_000, 92_000_000)),
    Row("address_space", "8GB", "9GB", "none", "address_space_bytes", (8_000_000_000, 9_000_000_000, None)),
    Row("cpu", 2, 1, "2", "cpu_cores", (2.0, 1.0, 2.0)),
    Row("cpu_time", "20s", None, "22s", "cpu_time_ms", (20_000, None, 22_000)),
    Row("call_timeout", "30s", "31s", "none", "call_timeout_ms", (30_000, 31_000, None)),
    Row("startup_timeout", "10s", "11s", "12s", "startup_timeout_ms", (10_000, 11_000, 12_000)),
    Row("graceful_timeout", "13s", "14s", "15s", "graceful_timeout_ms", (13_000, 14_000, 15_000)),
    Row("stuck_after", "3m", None, "5m", "stuck_after_ms", (180_000, None, 300_000)),
    Row("max_queue", 7, 8, "0", "queue_limit", (7, 8, 0)),
    Row("max_calls", 70, None, "72", "max_calls", (70, None, 72)),
    Row("max_age", "2h", "3h", "none", "max_age_ms", (7_200_000, 10_800_000, None)),
    Row("strategy", "round_robin", "power_of_two", "least_busy", "strategy",
        ("round_robin", "power_of_two", "least_busy")),
    Row("supervision", "one_for_all", "rest_for_one", "one_for_one", "supervision",
        ("one_for_all", "rest_for_one", "one_for_one")),
    Row("restart_policy.enabled", False, True, "no", "restart.enabled", (False, True, False)),
    Row("restart_policy.max_restarts", 7, 8, "9", "restart.max_restarts", (7, 8, 9)),
    Row("restart_policy.window", "2m", "3m", "4m", "restart.window_ms", (120_000, 180_000, 240_000)),
    Row("restart_policy.delay", "2s", "3s", "4s", "restart.delay_ms", (2_000, 3_000, 4_000)),
    Row("restart_policy.backoff.initial", "5s", "6s", "7s", "restart.backoff.first_ms", (5_000, 6_000, 7_000)),
    Row("restart_policy.backoff.max", "50s", "60s", "70s", "restart.backoff.cap_ms", (50_000, 60_000, 70_000)),
    Row("restart_policy.backoff.factor", 3, 4, "1.5", "restart.backoff.factor", (3.0, 4.0, 1.5)),
    Row("health_check.interval", "6s", None, "8s", "health_interval_ms", (6_000, None, 8_000)),
    Row("health_check.timeout", "3s", "4s", "5s", "health_timeout_ms", (3_000, 4_000, 5_000)),
    Row("sweep_interval", "16s", "17s", "18s", "sweep_interval_ms", (16_000, 17_000, 18_000)),
    Row("monitoring.metrics", False, True, "false", "metrics", (False, True, False)),
    Row("monitoring.tracing", True, False, "true", "tracing", (True, False, True)),
]  # fmt: skip
APART = {"isolation", "hash_key", "min_size", "max_size"}
"""What contradicts another row, or is nothing that every pool can have: tested by itself below."""


class Plain:
    @public
    def work(self, tenant: str) -> str:
        return tenant


def nested(values: dict[str, Any]) -> dict[str, Any]:
    """From dotted names to groups."""
    made: dict[str, Any] = {}
    for path, value in values.items():
        *groups, last = path.split(".")
        reduce(lambda group, name: group.setdefault(name, {}), groups, made)[last] = value
    return made


def pool(name: str, **options: Any) -> type[Any]:
    """A class of its own, where a child could import it."""
    made = type(name.title(), (Plain,), {"__module__": __name__})
    globals()[made.__name__] = made
    return process(name, **options)(made)


async def options_of(module: dict[str, Any], *classes: type[Any]) -> dict[str, PoolOptions]:
    app = App("shop", modules=[PoolsModule(**module)], jobs=classes)
    async with Worker(app) as worker:
        pools = await worker.get(Pools)
        return {name: pools.get(name).options for name in pools.list()}


def environ(monkeypatch: pytest.MonkeyPatch, pool: str, option: str, value: str) -> None:
    monkeypatch.setenv(f"WORKER_POOLS__{pool}__{option.upper().replace('.', '__')}", value)


def found(options: PoolOptions) -> dict[str, Any]:
    return {row.option: reduce(getattr, row.field.split("."), options) for row in ROWS}


def test_the_table_has_every_option() -> None:
    tops = {row.option.partition(".")[0] for row in ROWS} | APART
    assert tops == ProcessOptions.__optional_keys__ == set(PoolOverride.model_fields)
    of_all = tops - {"hash_key", "min_size", "max_size"}
    assert of_all == PoolsOptions.__optional_keys__ == set(PoolsSettings.model_fields) - {"overrides"}
    groups = {f"{name}.{key}" for name, key in _leaves(PoolsSettings)}
    assert groups == {row.option for row in ROWS if "." in row.option}


def _leaves(model: Any, prefix: str = "") -> list[tuple[str, str]]:
    pairs = []
    for name, field in model.model_fields.items():
        if hasattr(field.annotation, "model_fields"):
            pairs += _leaves(field.annotation, f"{prefix}{name}.")
        elif prefix:
            pairs.append((prefix[:-1], name))
    return pairs


async def test_each_option_of_the_module_reaches_every_pool_and_the_decorator_and_the_operator_overrule_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for row in ROWS:
        for name in ("OPERATED", "CPU"):
            environ(monkeypatch, name, row.option, row.environ)
    code = nested({row.option: row.code for row in ROWS})
    pools = await options_of(
        nested({row.option: row.module for row in ROWS}), pool("plain"), pool("own", **code), pool("operated", **code)
    )
    for place, name in enumerate(("plain", "own", "operated")):
        assert found(pools[name]) == {row.option: row.expected[place] for row in ROWS}, name
    assert found(pools["cpu"]) == {row.option: row.expected[2] for row in ROWS}


@pytest.mark.parametrize("row", [row for row in ROWS if "." in row.option], ids=lambda row: row.option)
async def test_an_option_of_a_group_leaves_its_neighbours_alone(row: Row, monkeypatch: pytest.MonkeyPatch) -> None:
    environ(monkeypatch, "OPERATED", row.option, row.environ)
    module = nested({row.option: row.module for row in ROWS})
    pools = await options_of(module, pool("own", **nested({row.option: row.code})), pool("operated"))
    inherited = {each.option: each.expected[0] for each in ROWS}
    assert found(pools["own"]) == {**inherited, row.option: row.expected[1]}
    assert found(pools["operated"]) == {**inherited, row.option: row.expected[2]}


async def test_isolation_and_the_limits_that_only_processes_have(monkeypatch: pytest.MonkeyPatch) -> None:
    environ(monkeypatch, "OPERATED", "isolation", "process")
    pools = await options_of(
        {"isolation": "thread", "memory": "100MB", "cpu_time": "3s"}, pool("plain"), pool("own", isolation="inline"),
        pool("operated"),
    )  # fmt: skip
    told = {name: (each.isolation, each.memory_bytes, each.cpu_time_ms) for name, each in pools.items()}
    assert told == {
        "cpu": ("process", 100_000_000, 3_000), "plain": ("thread", None, None), "own": ("inline", None, None),
        "operated": ("process", 100_000_000, 3_000),
    }  # fmt: skip


async def test_bounds_and_keys_are_of_one_pool(monkeypatch: pytest.MonkeyPatch) -> None:
    for option, value in (("min_size", "2"), ("max_size", "4"), ("strategy", "consistent_hash")):
        environ(monkeypatch, "OPERATED", option, value)
    environ(monkeypatch, "OPERATED", "hash_key", "{tenant}")
    environ(monkeypatch, "BACK", "strategy", "round_robin")
    keyed = {"strategy": "consistent_hash", "hash_key": "{tenant}"}
    pools = await options_of({}, pool("own", min_size=1, max_size=3, **keyed), pool("operated"), pool("back", **keyed))
    told = {name: (p.min_size, p.max_size, p.size, p.strategy, p.hash_key) for name, p in pools.items()}
    assert told["own"] == (1, 3, 1, "consistent_hash", "{tenant}")
    assert told["operated"] == (2, 4, 2, "consistent_hash", "{tenant}")
    assert told["back"][3:] == ("round_robin", None), "another strategy needs no key"


async def test_wrong_options_of_all_pools_are_one_error_with_all_of_them() -> None:
    one = pool("one", size=0, memory="lots", restart_policy={"window": "soon", "often": 1}, colour="red")
    two = pool("two", isolation="thread", cpu=1, min_size=2)
    found = await start_problems(App("shop", jobs=[one, two]))
    assert list(found) == [
        "pool one: size", "pool one: memory", "pool one: restart_policy.window", "pool one: restart_policy.often",
        "pool one: colour", "pool two: max_size", "pool two: cpu",
    ]  # fmt: skip
    assert found["pool one: colour"] == "there is no such option"


async def test_what_an_operator_says_wrongly_is_one_error_under_its_names(monkeypatch: pytest.MonkeyPatch) -> None:
    for option, value in (("size", "0"), ("restart_policy.max_restarts", "many"), ("memory", "1kB")):
        environ(monkeypatch, "IMAGES", option, value)
    with pytest.raises(ConfigError) as caught:
        Worker(App("shop", jobs=[pool("images")]))
    assert sorted((problem.name, problem.value, problem.origin) for problem in caught.value.problems) == [
        ("WORKER_POOLS__IMAGES__MEMORY", "1kB", "environment"),
        ("WORKER_POOLS__IMAGES__RESTART_POLICY__MAX_RESTARTS", "many", "environment"),
        ("WORKER_POOLS__IMAGES__SIZE", "0", "environment"),
    ]


async def test_a_pool_in_the_settings_that_is_not_there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    environ(monkeypatch, "IMAGE", "restart_policy.max_restarts", "5")
    with pytest.raises(ConfigError) as caught:
        Worker(App("shop", jobs=[pool("images")]))
    (problem,) = caught.value.problems
    assert problem.name == "WORKER_POOLS__IMAGE__RESTART_POLICY__MAX_RESTARTS"
    assert "images" in problem.message
