"""Names in the environment: ours, the source documents', Kubernetes' and slips."""

from __future__ import annotations

import pytest

from tests.settings.conftest import Project
from workfleet.settings import LockSettings, LogSettings, PoolsSettings
from workfleet.settings.environment import is_service_link

_LINKS = {
    "WORKER_PORT": "tcp://10.0.0.1:80",
    "WORKER_SERVICE_HOST": "10.0.0.1",
    "WORKER_SERVICE_PORT": "80",
    "WORKER_SERVICE_PORT_HTTP": "80",
    "WORKER_PORT_80_TCP": "tcp://10.0.0.1:80",
    "WORKER_PORT_80_TCP_PROTO": "tcp",
    "WORKER_PORT_80_TCP_PORT": "80",
    "WORKER_PORT_80_TCP_ADDR": "10.0.0.1",
    "WORKER_PORT_53_UDP": "udp://10.0.0.1:53",
    "WORKER_DEFAULT_SERVICE_HOST": "10.0.0.2",
    "WORKER_DEFAULT_PORT": "tcp://10.0.0.2:1",
    "WORKER_STORE_PORT_9_SCTP_ADDR": "10.0.0.2",
    "WORKER_LOCK_PORT": "tcp://10.0.0.3:1",
    "REDIS_PORT": "tcp://10.0.0.4:6379",
    "REDIS_SERVICE_HOST": "10.0.0.4",
    "REDIS_PORT_6379_TCP_ADDR": "10.0.0.4",
    "DB_PORT": "tcp://10.0.0.5:5432",
    "DB_SERVICE_PORT_POSTGRES": "5432",
}


@pytest.mark.parametrize("name", _LINKS)
def test_a_kubernetes_service_link_is_ignored(project: Project, name: str) -> None:
    assert is_service_link(name, _LINKS[name])
    loaded = project.read({name: _LINKS[name]})
    assert (loaded.warnings, loaded.origins) == ((), {})
    assert (loaded.core.redis.port, loaded.core.db.port) == (6379, None)


def test_a_port_that_is_a_number_is_a_setting(project: Project) -> None:
    loaded = project.read({"REDIS_PORT": "6380", "DB_PORT": "5433"})
    assert (loaded.core.redis.port, loaded.core.db.port) == (6380, 5433)


def test_other_peoples_variables_are_nobodys_business(project: Project) -> None:
    env = {"PATH": "/bin", "HOME": "/", "DB_POOL_SIZE": "9", "REDIS_SENTINELS": "a,b", "WORKERS": "3", "WORKER_": "x"}
    assert project.read(env).warnings == ()


def test_the_source_documents_names_work(project: Project) -> None:
    loaded = project.read(
        {
            "WORKER_DEFAULT_QUEUE": "gauzy", "WORKER_QUEUE_ENABLED": "false", "WORKER_SCHEDULER_ENABLED": "false",
            "WORKER_TIMEZONE": "Europe/Sofia", "WORKER_HEARTBEAT_ENABLED": "false",
            "REDIS_ENABLED": "false", "REDIS_HOST": "redis.internal", "REDIS_PORT": "6380", "REDIS_USER": "default",
            "REDIS_PASSWORD": "secret", "REDIS_TLS": "true",
            "DB_TYPE": "better-sqlite3", "DB_HOST": "db", "DB_PORT": "5432", "DB_NAME": "gauzy", "DB_USER": "postgres",
            "DB_PASS": "root",
        }
    )  # fmt: skip
    core = loaded.core
    assert (core.default_queue, core.queue_enabled, core.scheduler_enabled) == ("gauzy", False, False)
    assert (core.timezone, core.heartbeat_enabled) == ("Europe/Sofia", False)
    assert (core.redis.host, core.redis.port, core.redis.user, core.redis.tls) == (
        "redis.internal",
        6380,
        "default",
        True,
    )
    assert core.redis.password is not None
    assert core.redis.password.get_secret_value() == "secret"
    db = core.db
    assert (db.type, db.host, db.port, db.name, db.user) == ("better-sqlite3", "db", 5432, "gauzy", "postgres")
    assert db.password is not None
    assert db.password.get_secret_value() == "root"


def test_our_own_names_work(project: Project) -> None:
    env = {
        "WORKER_APP": "shop.app:app", "WORKER_STORE": "sqlite:///srv/shop.db", "WORKER_STATUS_FILE": "/run/shop.json",
        "WORKER_SHUTDOWN_TIMEOUT": "2m", "WORKER_RELEASE": "v7", "WORKER_PROCESSES": "4", "WORKER_QUEUES": "a,b , c",
        "WORKER_PACKAGES": '["shop.jobs", "shop.mail"]', "WORKER_REDIS__HOST": "r",
    }  # fmt: skip
    core = project.read(env).core
    assert (core.app, core.store, str(core.status_file)) == ("shop.app:app", "sqlite:///srv/shop.db", "/run/shop.json")
    assert (str(core.shutdown_timeout), core.release, core.processes) == ("2m", "v7", 4)
    assert (core.queues, core.packages, core.redis.host) == (["a", "b", "c"], ["shop.jobs", "shop.mail"], "r")


def test_levels_are_two_underscores_and_case_does_not_matter(project: Project) -> None:
    env = {
        "WORKER_POOLS__RESTART_POLICY__BACKOFF__MAX": "1m",
        "worker_lock__Retries": " 7 ",
        "WORKER_LOG__LEVEL": "WARN",
        "WORKER_LOG__LEVELS__SQLALCHEMY": "Error",
        "WORKER_LOG__LEVELS__shop.mail": "debug",
    }
    loaded = project.read(env)
    assert str(loaded.section("pools", PoolsSettings).restart_policy.backoff.max) == "1m"
    assert loaded.section("lock", LockSettings).retries == 7
    log = loaded.section("log", LogSettings)
    assert (log.level, log.levels) == ("warning", {"sqlalchemy": "error", "shop.mail": "debug"})


def test_a_whole_section_may_be_json(project: Project) -> None:
    lock = project.read({"WORKER_LOCK": '{"retries": 5, "default_ttl": "2m"}'}).section("lock", LockSettings)
    assert (lock.retries, str(lock.default_ttl)) == (5, "2m")


@pytest.mark.parametrize("value", ["5", "{broken", "[1]"])
def test_a_section_that_is_no_json_object_is_refused(project: Project, value: str) -> None:
    problem = project.problem({"WORKER_LOCK": value})
    assert (problem.name, problem.value) == ("WORKER_LOCK", value)
    assert problem.message == 'must be a JSON object such as {"size": 4}'


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("WORKER_TIMEZNE", "WORKER_TIMEZONE"),
        ("WORKER_QUEUE", "WORKER_QUEUES"),
        ("WORKER_TIME_ZONE", "WORKER_TIMEZONE"),
        ("WORKER_LOCK_DEFAULT_TTL", "WORKER_LOCK__DEFAULT_TTL"),
        ("WORKER_LOCK__DEFAULTTTL", "WORKER_LOCK__DEFAULT_TTL"),
        ("WORKER_REDIS_HOST", "REDIS_HOST"),
        ("WORKER_LOKC__RETRIES", "WORKER_LOCK__RETRIES"),
        ("WORKER_POOLS__RESTART_POLICY__MAX_RESTART", "WORKER_POOLS__RESTART_POLICY__MAX_RESTARTS"),
        ("WORKER_POOLS__MAX_QEUE", "WORKER_POOLS__MAX_QUEUE"),
        ("WORKER_JOBS__CLEANUP__ENABLD", "WORKER_JOBS__CLEANUP__ENABLED"),
    ],
)
def test_a_slip_is_an_error_that_says_what_was_meant(project: Project, name: str, meant: str) -> None:
    problem = project.problem({name: "1"})
    assert (problem.name, problem.value, problem.origin) == (name, "1", "environment")
    assert problem.message == f"is not a setting; did you mean {meant}?"


@pytest.mark.parametrize(
    "name", ["WORKER_FOO", "WORKER_ID", "WORKER_LOCK__FOO", "WORKER_JOBS__X__FOO", "WORKER_MAIL__X"]
)
def test_a_name_like_no_other_is_a_warning(project: Project, name: str) -> None:
    warnings = project.read({name: "1"}).warnings
    assert warnings == (f"{name} (environment) is not a setting of workfleet or of this app: ignored",)


def test_a_slip_in_a_shared_family_is_only_a_warning(project: Project) -> None:
    loaded = project.read({"REDIS_PASSWRD": "hush", "DB_PASSWORD": "hush", "REDIS_URI": "redis://x"})
    assert loaded.warnings == (
        "REDIS_PASSWRD (environment) is not a setting; did you mean REDIS_PASSWORD?",
        "REDIS_URI (environment) is not a setting; did you mean REDIS_URL?",
    )


def test_the_value_of_a_misspelt_secret_is_masked(project: Project) -> None:
    assert project.problem({"WORKER_REDIS__PASSWRD": "hush", "WORKER_REDIS__PASWORD": ""}).value == "********"


def test_two_names_of_one_setting_must_agree(project: Project) -> None:
    env = {"WORKER_TIMEZONE": "UTC", "WORKER_SCHEDULER__TIMEZONE": "Asia/Tokyo"}
    problem = project.problem(env)
    assert problem.name == "WORKER_TIMEZONE and WORKER_SCHEDULER__TIMEZONE"
    assert (problem.value, problem.origin) == ("UTC and Asia/Tokyo", "environment")
    assert project.read({**env, "WORKER_TIMEZONE": "Asia/Tokyo"}).core.timezone == "Asia/Tokyo"


def test_a_higher_source_settles_two_names(project: Project) -> None:
    project.write(".env", "WORKER_TIMEZONE=UTC\n")
    loaded = project.read({"WORKER_SCHEDULER__TIMEZONE": "Asia/Tokyo"})
    assert (loaded.core.timezone, loaded.origins["timezone"].name) == ("Asia/Tokyo", "WORKER_SCHEDULER__TIMEZONE")


def test_two_passwords_that_disagree_are_masked(project: Project) -> None:
    problem = project.problem({"REDIS_PASSWORD": "hush", "WORKER_REDIS__PASSWORD": "tush"})
    assert problem.value == "******** and ********"
