"""Everything that is wrong is said at once, in plain words, and nothing secret is."""

from __future__ import annotations

import traceback

import pytest
from pydantic import BaseModel, SecretStr, field_validator, model_validator

from tests.settings.conftest import Project
from workfleet.errors import ConfigError


def test_a_dozen_wrong_settings_give_one_message_that_names_them_all(project: Project) -> None:
    project.write(".env", "WORKER_HEARTBEAT_EVERY=30\n")
    project.write(".env.local", "WORKER_LOG__LEVEL=loud\n")
    project.write("workfleet.yaml", "timezone: Europe/Berln\npools: {memory: 1}\nlokc: {a: 1}\n")
    env = {
        "WORKER_PROCESSES": "0",
        "WORKER_TIMEZNE": "UTC",
        "WORKER_QUEUE_ENABLED": "maybe",
        "REDIS_PORT": "70000",
        "DB_TYPE": "oracle",
        "WORKER_PORT": "tcp://10.0.0.1:80",
    }
    with pytest.raises(ConfigError) as caught:
        project.read(env, given={"lock": {"retries": -1}}, cli={"shutdown_timeout": "forever"})
    text = str(caught.value)
    assert caught.value.exit_code == 78
    assert text.splitlines()[0] == "12 problems in the configuration:"
    said = {problem.name: (problem.value, problem.origin, problem.message) for problem in caught.value.problems}
    duration = "a duration from {} to 1d, such as '90s' or '1h30m'"
    assert said == {
        "lokc": (None, "workfleet.yaml:3", "is not a setting; did you mean lock?"),
        "WORKER_TIMEZNE": ("UTC", "environment", "is not a setting; did you mean WORKER_TIMEZONE?"),
        "WORKER_PROCESSES": ("0", "environment", "must be a whole number from 1 to 1024"),
        "WORKER_QUEUE_ENABLED": ("maybe", "environment", "must be true or false"),
        "REDIS_PORT": ("70000", "environment", "must be a whole number from 1 to 65535"),
        "DB_TYPE": ("oracle", "environment",
                    "must be one of postgres, postgresql, mysql, mariadb, sqlite, better-sqlite3, or none"),
        "WORKER_HEARTBEAT_EVERY": ("30", ".env:1", "'30' has no unit: write '30s', '30m' or another of "
                                   f"w, d, h, m, s, ms (allowed: {duration.format('1s')})"),
        "WORKER_LOG__LEVEL": ("loud", ".env.local:1", "must be one of debug, info, warning, error, critical"),
        "timezone": ("Europe/Berln", "workfleet.yaml:1", "there is no such time zone, did you mean Europe/Berlin? "
                     "(allowed: an IANA time zone such as UTC or Europe/Berlin)"),
        "pools.memory": ("1", "workfleet.yaml:2", "'1' has no unit: write '1B', '1MB' or '1MiB' "
                         "(allowed: a size of at least 16MB, such as '512MB' or '2GiB', or none)"),
        "lock.retries": ("-1", "code", "must be a whole number from 0 to 1000000"),
        "--shutdown-timeout": ("forever", "command line", "'forever' is not a duration such as '90s', '1h30m', "
                               f"'250ms' or '14d' (allowed: {duration.format('0s')})"),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("WORKER_LEASE", "500ms",
         "500ms is out of range (allowed: a duration from 1s to 1d, such as '90s' or '1h30m')"),
        ("WORKER_POOLS__MEMORY", "1MB",
         "1MB is too small (allowed: a size of at least 16MB, such as '512MB' or '2GiB', or none)"),
        ("WORKER_QUEUES", "a,b:c", "'b:c' cannot be a queue's name (allowed: a list such as a,b of which each is a "
         "queue's name, 1 to 200 printable characters without ':', or none)"),
        ("WORKER_QUEUES", "[1", "begins like JSON and is not right JSON, character 3"),
        ("WORKER_PROCESSES", "2.5", "must be a whole number from 1 to 1024"),
        ("WORKER_POOLS__RESTART_POLICY__BACKOFF__FACTOR", "nan", "must be a number from 1 to 100"),
        ("WORKER_POOLS__RESTART_POLICY__BACKOFF__FACTOR", "0.5", "must be a number from 1 to 100"),
        ("WORKER_POOLS__ISOLATION", "fork", "must be one of process, thread, inline"),
        ("WORKER_POOLS__CPU__STRATEGY", "random",
         "must be one of least_busy, round_robin, power_of_two, consistent_hash, or none"),
        ("WORKER_POOLS__STRATEGY", "consistent_hash", "must be one of least_busy, round_robin, power_of_two"),
        ("WORKER_POOLS__X__RESTART_POLICY__MAX_RESTARTS", "-1", "must be a whole number from 0 to 1000000"),
        ("WORKER_POOLS__X__CPU", "0", "must be a number from 0.01 to 1024, or none"),
        ("WORKER_POOLS__X__SIZE", "many", "must be a whole number from 1 to 1024 or auto, or none"),
        ("WORKER_JOBS__X__ENABLED", "maybe", "must be true or false"),
        ("WORKER_TIMEZONE", "/etc/passwd", "there is no such time zone (allowed: an IANA time zone such as UTC or "
         "Europe/Berlin)"),
        ("WORKER_TIMEZONE", "../UTC", None),
        ("WORKER_TIMEZONE", "Europe", None),
        ("WORKER_RELEASE", "  ", "it is empty (allowed: text that is not empty, or none)"),
    ],
)  # fmt: skip
def test_a_bad_value_says_what_is_allowed(project: Project, name: str, value: str, message: str | None) -> None:
    problem = project.problem({name: value})
    assert (problem.name, problem.value) == (name, value)
    assert message is None or problem.message == message


def test_utc_needs_no_time_zone_data(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(key: str) -> None:
        raise FileNotFoundError(key)

    monkeypatch.setattr("zoneinfo.ZoneInfo", missing)
    monkeypatch.setattr("zoneinfo.available_timezones", set)
    assert project.read({"WORKER_TIMEZONE": "UTC"}).core.timezone == "UTC"
    problem = project.problem({"WORKER_TIMEZONE": "Europe/Berlin"})
    assert problem.message.startswith("this machine has no time zone data: install the package tzdata, or use UTC")


class Vault(BaseModel):
    pin: SecretStr
    api_key: str = ""
    plain: int = 1

    @field_validator("pin")
    @classmethod
    def four_digits(cls, pin: SecretStr) -> SecretStr:
        if len(pin.get_secret_value()) != 4:
            raise ValueError(f"{pin.get_secret_value()} has not four digits")
        return pin

    @model_validator(mode="after")
    def not_the_key(self) -> Vault:
        if self.pin.get_secret_value() == self.api_key:
            raise ValueError(f"pin and key are both {self.api_key}")
        return self


def test_a_validator_that_repeats_a_secret_is_cleaned(project: Project) -> None:
    problem = project.problem({"WORKER_VAULT__PIN": "12345"}, sections={"vault": Vault})
    assert (
        str(problem) == "WORKER_VAULT__PIN = ******** (from environment): ******** has not four digits (allowed: text)"
    )
    env = {"WORKER_VAULT__PIN": "9876", "WORKER_VAULT__API_KEY": "9876"}
    assert str(project.problem(env, sections={"vault": Vault})) == "vault: pin and key are both ********"


_PASSWORDS = ["p#/@:%+ word", "a@b@c", "pa/ss", "p:w", "p?q", "hu[sh"]


@pytest.mark.parametrize("password", _PASSWORDS)
def test_no_password_is_printed_anywhere(project: Project, password: str) -> None:
    """In a store URL, a Redis URL and variables of their own, beside another mistake, as message, repr or traceback."""
    env = {
        "WORKER_STORE": f"redis://user:{password}@host:6379/0",
        "REDIS_URL": f"redis://:{password}@host:6379/0",
        "REDIS_PASSWORD": password,
        "DB_PASS": password,
        "WORKER_VAULT__PIN": password,
        "WORKER_VAULT__API_KEY": password,
        "WORKER_VAULT__PLAIN": "x",
        "WORKER_REDIS_PASSWORD": password,
        "WORKER_DB__PASWORD": password,
    }
    with pytest.raises(ConfigError) as caught:
        project.read(env, sections={"vault": Vault})
    said = str(caught.value) + repr(caught.value.problems) + "".join(traceback.format_exception(caught.value))
    assert password not in said
    assert password[1:] not in said
    assert said.count("********") >= 6


@pytest.mark.parametrize("password", ["p#/@:%+ word"])
def test_valid_settings_do_not_show_passwords_either(project: Project, password: str) -> None:
    env = {"REDIS_PASSWORD": password, "DB_PASS": password, "WORKER_VAULT__PIN": "4711"}
    loaded = project.read(env, sections={"vault": Vault})
    said = (
        repr(loaded)
        + str(loaded.core)
        + repr(loaded.core.redis)
        + repr(loaded.sections)
        + loaded.core.model_dump_json()
    )
    assert password not in said
    assert "4711" not in said


@pytest.mark.parametrize(
    ("name", "value", "shown"),
    [
        ("WORKER_PROCESSES", "\x1b[2J\n1x", "\\x1b[2J\\n1x"),
        ("WORKER_RELEASE", "a\udcff", "a\\udcff"),
        ("WORKER_TIMEZONE", "a\udcff", "a\\udcff"),
        ("WORKER_STORE", "sqlite:///\udcff\0.db", "sqlite:///\\udcff\\x00.db"),
    ],
)
def test_a_value_with_odd_signs_can_be_printed(project: Project, name: str, value: str, shown: str) -> None:
    problem = project.problem({name: value})
    assert problem.value == shown
    str(problem).encode()


def test_a_long_value_is_shortened(project: Project) -> None:
    value = project.problem({"WORKER_PROCESSES": "9" * 10_000}).value
    assert value is not None
    assert len(value) == 201
