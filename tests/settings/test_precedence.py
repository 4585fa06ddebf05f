"""Which source wins, and what each value's origin says."""

from __future__ import annotations

import os

import pytest

from tests.settings.conftest import Project
from workfleet.settings import CORE, LockSettings, SchedulerSettings, Source, load

_SOURCES = ["code", "workfleet.yaml", ".env", ".env.local", "environment", "command line"]


@pytest.mark.parametrize("top", range(len(_SOURCES)))
def test_the_higher_source_wins_and_is_named(project: Project, top: int) -> None:
    names = _SOURCES[: top + 1]
    if "workfleet.yaml" in names:
        project.write("workfleet.yaml", "# first\nprocesses: 3\n")
    if ".env" in names:
        project.write(".env", "A=1\nWORKER_PROCESSES=4\n")
    if ".env.local" in names:
        project.write(".env.local", "WORKER_PROCESSES=5\n")
    env = {"WORKER_PROCESSES": "6"} if "environment" in names else {}
    cli = {"processes": 7} if "command line" in names else {}
    loaded = project.read(env, given={CORE: {"processes": 2}}, cli=cli)
    assert loaded.core.processes == 2 + top
    places = ["code", "workfleet.yaml:2", ".env:2", ".env.local:1", "environment", "command line"]
    assert str(loaded.origins["processes"]) == places[top]


def test_without_any_source_the_defaults_hold(project: Project) -> None:
    loaded = project.read()
    core = loaded.core
    assert (core.processes, core.queues, core.default_queue, core.timezone) == (1, None, "worker-default", "UTC")
    assert (core.queue_enabled, core.scheduler_enabled, core.heartbeat_enabled) == (True, True, True)
    durations = (core.lease, core.poll, core.heartbeat_every, core.shutdown_timeout, core.stuck_after)
    assert [str(one) for one in durations] == ["30s", "10s", "30s", "25s", "10m"]
    assert (core.concurrency, core.max_crashes, core.store, core.release) == (10, 3, None, None)
    assert loaded.origins == {}
    assert loaded.warnings == ()


def test_the_sections_have_the_documents_defaults(project: Project) -> None:
    loaded = project.read()
    shown = {name: section.model_dump(mode="json") for name, section in loaded.sections.items()}
    assert shown == {
        "lock": {"default_ttl": "1m", "key_prefix": "lock", "retries": 3, "retry_delay": "200ms", "client": None},
        "scheduler": {
            "enabled": True, "timezone": "UTC", "enable_queueing": True, "default_queue": "worker-default",
            "log_registered_jobs": True, "max_concurrent": 10, "fleet_max_concurrent": None,
            "history_age": "30d", "history_count": 500,
            "default_job_options": {
                "enabled": True, "overlap": "skip", "retries": 0, "retry_delay": "5s", "timeout": None, "jitter": None,
                "expires": None,
            },
        },
        "pools": {
            "isolation": "process", "memory": None, "call_timeout": "1m", "startup_timeout": "30s",
            "graceful_timeout": "30s", "sweep_interval": "5s", "max_queue": 100, "overrides": {},
            "size": "auto", "soft_memory": None, "address_space": None, "cpu": None, "cpu_time": None,
            "stuck_after": "10m", "max_calls": None, "max_age": None, "strategy": "least_busy",
            "supervision": "one_for_one", "monitoring": {"metrics": True, "tracing": False},
            "health_check": {"interval": "5s", "timeout": "2s"},
            "restart_policy": {
                "enabled": True, "max_restarts": 3, "window": "1m", "delay": "1s",
                "backoff": {"initial": "1s", "max": "30s", "factor": 2.0},
            },
        },
        "metrics": {
            "app_name": None, "storage": "sqlite", "url": None, "textfile": None,
            "collection": {
                "enabled": True, "interval": "10s", "process": True, "system": True, "store_interval": "1m",
                "queues": True, "schedules": True, "locks": True, "custom": True,
            },
            "batch_size": 200, "flush_interval": "10s", "retention": "14d", "cleanup_interval": "1h",
        },
        "health": {
            "memory": True, "event_loop": True, "disk": True, "redis": True, "redis_clients": None, "database": True,
            "store": True, "queues": True, "schedules": True, "pools": True, "critical": ["pools", "redis"],
            "thresholds": {
                "memory_degraded": 0.8, "memory_unhealthy": 0.95,
                "event_loop_degraded": "250ms", "event_loop_unhealthy": "1s",
                "disk_degraded": 0.8, "disk_unhealthy": 0.95, "disk_enough": "10GiB",
                "store_degraded": "250ms", "store_unhealthy": "1s500ms",
                "redis_degraded": "100ms", "redis_unhealthy": "1s",
                "database_degraded": "100ms", "database_unhealthy": "1s",
                "queues_degraded": "10m", "queues_unhealthy": "1h",
                "schedules_degraded": "1m", "schedules_unhealthy": "10m",
            },
            "queue_ages": {}, "interval": "10s", "store_interval": "1m", "timeout": "2s", "cache_ttl": "1s",
            "version": None,
        },
        "tracing": {"enabled": True, "runs": "child"},
        "log": {
            "level": "info", "format": "auto", "levels": {}, "redact": True, "redact_keys": [], "destinations": {},
            "jobs": {"level": "info", "lines": 1_000, "size": "256KiB"},
        },
        "outbox": {"database": None, "poll": "1s", "batch": 500},
    }  # fmt: skip


def test_a_file_setting_leaves_its_neighbours_to_the_code(project: Project) -> None:
    project.write("workfleet.yaml", "lock: {retries: 9}\n")
    given = {"lock": {"retries": 5, "default_ttl": "2m"}}
    lock = project.read(given=given).section("lock", LockSettings)
    assert (lock.retries, str(lock.default_ttl), str(lock.retry_delay)) == (9, "2m", "200ms")


@pytest.mark.parametrize(
    "variables",
    [
        {"WORKER_TIMEZONE": "Asia/Tokyo", "WORKER_SCHEDULER_ENABLED": "false",
         "WORKER_QUEUE_ENABLED": "false", "WORKER_DEFAULT_QUEUE": "q"},
        {"WORKER_SCHEDULER__TIMEZONE": "Asia/Tokyo", "WORKER_SCHEDULER__ENABLED": "false",
         "WORKER_SCHEDULER__ENABLE_QUEUEING": "false", "WORKER_SCHEDULER__DEFAULT_QUEUE": "q"},
    ],
)  # fmt: skip
def test_the_scheduler_modules_options_are_the_workers_settings(project: Project, variables: dict[str, str]) -> None:
    loaded = project.read(variables, given={"scheduler": {"timezone": "Europe/Paris", "default_queue": "code"}})
    scheduler = loaded.section("scheduler", SchedulerSettings)
    assert (loaded.core.timezone, scheduler.timezone) == ("Asia/Tokyo", "Asia/Tokyo")
    assert (loaded.core.scheduler_enabled, scheduler.enabled) == (False, False)
    assert (loaded.core.queue_enabled, scheduler.enable_queueing) == (False, False)
    assert (loaded.core.default_queue, scheduler.default_queue) == ("q", "q")
    assert loaded.origins["scheduler.timezone"].source is Source.ENVIRONMENT


def test_what_the_code_gives_to_the_scheduler_reaches_the_worker(project: Project) -> None:
    loaded = project.read(given={"scheduler": {"timezone": "Europe/Paris"}})
    assert loaded.core.timezone == "Europe/Paris"
    assert loaded.section("scheduler", SchedulerSettings).timezone == "Europe/Paris"


def test_app_version_stands_in_for_the_release_below_every_name_of_ours(project: Project) -> None:
    env = {"APP_VERSION": "1.2"}
    assert project.read(env, given={CORE: {"release": "code"}}).core.release == "1.2"
    assert project.read({**env, "WORKER_RELEASE": "7"}).core.release == "7"
    project.write("workfleet.yaml", "release: 1.10\n")
    loaded = project.read(env)
    assert loaded.core.release == "1.10", "as written, not as the number 1.1"
    assert loaded.section("health").model_dump()["version"] == "1.10"


def test_a_version_given_to_health_is_its_own(project: Project) -> None:
    loaded = project.read({"APP_VERSION": "1.2", "WORKER_HEALTH__VERSION": "9"})
    assert (loaded.core.release, loaded.section("health").model_dump()["version"]) == ("1.2", "9")


def test_an_empty_variable_is_not_set(project: Project) -> None:
    project.write("workfleet.yaml", "timezone: Asia/Tokyo\n")
    assert project.read({"WORKER_TIMEZONE": "", "WORKER_QUEUE_ENABLED": ""}).core.timezone == "Asia/Tokyo"


def test_what_the_command_line_leaves_out_says_nothing(project: Project) -> None:
    loaded = project.read({"WORKER_QUEUES": "a, b"}, cli={"queues": (), "processes": None, "store": None})
    assert (loaded.core.queues, loaded.core.processes) == (["a", "b"], 1)
    assert project.read({"WORKER_QUEUES": "a"}, cli={"queues": ("x", "y")}).core.queues == ["x", "y"]


def test_none_switches_off_what_can_be_off(project: Project) -> None:
    project.write("workfleet.yaml", "pools: {call_timeout: 5s}\nqueues: [a]\n")
    loaded = project.read({"WORKER_POOLS__CALL_TIMEOUT": "none", "WORKER_QUEUES": "none"})
    assert loaded.section("pools").model_dump()["call_timeout"] is None
    assert loaded.core.queues is None
    project.write("workfleet.yaml", "pools: {call_timeout: null}\n")
    assert project.read().section("pools").model_dump()["call_timeout"] is None


def test_the_process_environment_is_the_default_source(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("WORKER_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("WORKER_PROCESSES", "3")
    project.write(".env", "WORKFLEET_TEST_DOTENV=from the file\n")
    monkeypatch.chdir(project.folder)
    try:
        assert load().core.processes == 3
        assert os.environ["WORKFLEET_TEST_DOTENV"] == "from the file"
    finally:
        os.environ.pop("WORKFLEET_TEST_DOTENV", None)
