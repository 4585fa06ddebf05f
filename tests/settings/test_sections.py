"""Sections of the application's own, and what the supervisor cannot judge without them."""

from __future__ import annotations

import enum
from datetime import timedelta
from typing import Annotated, Any, Literal

import pytest
from pydantic import AliasChoices, BaseModel, ConfigDict, Field, PositiveInt, SecretStr, model_validator

from tests.settings.conftest import Project
from workfleet.settings import LockSettings
from workfleet.units import Duration, Size


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Smtp(BaseModel):
    host: str
    port: Annotated[int, Field(ge=1, le=65535)] = 25


class MailSettings(BaseModel):
    password: SecretStr
    smtp: Smtp
    give_up_after: Duration = Duration("1d")
    largest: Size | None = None
    color: Color = Color.RED
    mode: Literal["fast", "slow"] = "fast"
    retries: PositiveInt = 3
    to: list[str] = []
    labels: dict[str, str] = {}
    backup: Smtp | None = None
    raw: dict[str, Any] = {}


_ENOUGH = {"WORKER_MAIL__PASSWORD": "hush", "WORKER_MAIL__SMTP__HOST": "mx"}


def read(project: Project, env: dict[str, str] | None = None) -> MailSettings:
    return project.read({**_ENOUGH, **(env or {})}, {"mail": MailSettings}).section("mail", MailSettings)


def test_a_section_reads_the_environment(project: Project) -> None:
    mail = read(
        project,
        {
            "WORKER_MAIL__SMTP__PORT": "2525", "WORKER_MAIL__GIVE_UP_AFTER": "2h", "WORKER_MAIL__LARGEST": "25MB",
            "WORKER_MAIL__COLOR": "blue", "WORKER_MAIL__MODE": "slow", "WORKER_MAIL__TO": "a@x,b@x",
            "WORKER_MAIL__LABELS__TEAM": "ops", "WORKER_MAIL__BACKUP__HOST": "mx2", "WORKER_MAIL__RAW": '{"n": [1]}',
        },
    )  # fmt: skip
    assert mail.password.get_secret_value() == "hush"
    assert (mail.smtp, mail.backup) == (Smtp(host="mx", port=2525), Smtp(host="mx2", port=25))
    assert (mail.give_up_after, mail.largest, mail.color) == (timedelta(hours=2), 25_000_000, Color.BLUE)
    assert (mail.mode, mail.to, mail.labels, mail.raw) == ("slow", ["a@x", "b@x"], {"team": "ops"}, {"n": [1]})


def test_a_section_reads_the_file(project: Project) -> None:
    project.write(
        "workfleet.yaml",
        "mail:\n  smtp: {port: 2525}\n  to: [a@x]\n  labels: {Team: ops, on: 1}\n  raw: {n: [1, yes, 0x10]}\n",
    )
    mail = read(project)
    assert (mail.smtp, mail.to, mail.labels) == (Smtp(host="mx", port=2525), ["a@x"], {"Team": "ops", "on": "1"})
    assert mail.raw == {"n": [1, True, 16]}


def test_what_is_missing_is_named_as_the_user_would_set_it(project: Project) -> None:
    problems = project.problems(sections={"mail": MailSettings})
    assert [str(problem) for problem in problems] == [
        "WORKER_MAIL__PASSWORD: is required (text): set it, or mail.password in the settings file",
        "WORKER_MAIL__SMTP__…: is required: set these, or mail.smtp in the settings file",
    ]
    problem = project.problem(
        {"WORKER_MAIL__PASSWORD": "x", "WORKER_MAIL__SMTP__PORT": "1"}, sections={"mail": MailSettings}
    )
    assert problem.name == "WORKER_MAIL__SMTP__HOST"


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("WORKER_MAIL__COLOR", "green", "must be one of red, blue"),
        ("WORKER_MAIL__MODE", "warp", "must be one of fast, slow"),
        ("WORKER_MAIL__RETRIES", "0", "must be a whole number"),
        ("WORKER_MAIL__SMTP__PORT", "0", "must be a whole number from 1 to 65535"),
        ("WORKER_MAIL__GIVE_UP_AFTER", "5", "'5' has no unit"),
        ("WORKER_MAIL__RAW", "5", "must be a JSON object"),
    ],
)
def test_a_bad_value_in_a_section_says_what_is_allowed(project: Project, name: str, value: str, message: str) -> None:
    problem = project.problem({**_ENOUGH, name: value}, sections={"mail": MailSettings})
    assert (problem.name, problem.value) == (name, value)
    assert problem.message.startswith(message)


def test_unknown_names_in_a_section_are_judged(project: Project) -> None:
    project.write("workfleet.yaml", "mail: {colour: red}\n")
    env = {**_ENOUGH, "WORKER_MAIL__PASWORD": "hush"}
    first, second = project.problems(env, sections={"mail": MailSettings})
    assert str(first) == "mail.colour = red (from workfleet.yaml:1): is not a setting; did you mean mail.color?"
    assert str(second) == (
        "WORKER_MAIL__PASWORD = ******** (from environment): is not a setting; did you mean WORKER_MAIL__PASSWORD?"
    )


def test_the_supervisor_leaves_alone_what_may_be_the_applications(project: Project) -> None:
    project.write("workfleet.yaml", "mail: {host: x}\n")
    env = {"WORKER_MAIL__HOST": "x", "WORKER_OTHER": '{"a": 1}'}
    loaded = project.read(env, app_known=False)
    assert loaded.warnings == ()
    assert [one.name for one in project.problems(env)] == ["mail"]


def test_the_supervisor_judges_what_cannot_be_a_section(project: Project) -> None:
    project.write("workfleet.yaml", "timzone: UTC\nlock: {retrys: 1}\n")
    env = {"WORKER_TIMEZNE": "UTC", "WORKER_LOCK__RETRYS": "1", "WORKER_FOO": "1"}
    names = [one.name for one in project.problems(env, app_known=False)]
    assert names == ["timzone", "lock.retrys", "WORKER_TIMEZNE", "WORKER_LOCK__RETRYS"]


def test_a_section_named_like_a_setting_is_refused(project: Project) -> None:
    for name in ("timezone", "jobs", "redis", "lock", "Status-File"):
        problem = project.problem(sections={name: MailSettings})
        assert problem.name == name
        assert problem.message.startswith("cannot be a section: ")


def test_two_sections_with_one_environment_name_are_refused(project: Project) -> None:
    problem = project.problem(sections={"mail-out": LockSettings, "mail.out": LockSettings})
    assert problem.message == "cannot be a section: mail-out has that name; rename the module"


def test_a_built_in_section_may_be_declared_again(project: Project) -> None:
    assert project.read(sections={"lock": LockSettings}).section("lock", LockSettings).retries == 3


def test_a_section_with_signs_in_its_name(project: Project) -> None:
    loaded = project.read({"WORKER_MAIL_OUT__RETRIES": "8"}, {"mail-out": LockSettings})
    assert loaded.section("mail-out", LockSettings).retries == 8
    project.write("workfleet.yaml", "mail-out: {retries: 9}\n")
    assert project.read(sections={"mail-out": LockSettings}).section("mail-out", LockSettings).retries == 9


def test_a_model_that_reads_the_environment_itself_is_refused(project: Project) -> None:
    pydantic_settings = pytest.importorskip("pydantic_settings")
    model = type("Own", (pydantic_settings.BaseSettings,), {})
    assert project.problem(sections={"own": model}).message == (
        "Own reads the environment by itself: derive it from pydantic.BaseModel"
    )


class Aliased(BaseModel):
    host: str = Field("x", alias="Host-Name")
    user: str = Field("x", validation_alias=AliasChoices("login", "user_name"))  # type: ignore[pydantic-alias]


def test_aliases_are_names_too(project: Project) -> None:
    project.write("workfleet.yaml", "own: {Host-Name: a}\n")
    own = project.read({"WORKER_OWN__USER_NAME": "b"}, {"own": Aliased}).section("own", Aliased)
    assert (own.host, own.user) == ("a", "b")
    project.write("workfleet.yaml", "own: {host: c, user: d}\n")
    own = project.read(sections={"own": Aliased}).section("own", Aliased)
    assert (own.host, own.user) == ("c", "d")


class Open(BaseModel):
    model_config = ConfigDict(extra="allow")
    known: int = 1


def test_a_model_that_allows_more_takes_more(project: Project) -> None:
    project.write("workfleet.yaml", "own: {known: 2, other: {deep: 3}}\n")
    own = project.read(sections={"own": Open}).section("own", Open)
    assert own.model_dump() == {"known": 2, "other": {"deep": 3}}


class Tree(BaseModel):
    name: str = ""
    left: Tree | None = None


def test_a_model_that_holds_itself_ends(project: Project) -> None:
    env = {"WORKER_OWN__LEFT__LEFT__NAME": "x"}
    own = project.read(env, {"own": Tree}).section("own", Tree)
    assert own.left is not None
    assert own.left.left == Tree(name="x")


class Range(BaseModel):
    low: int = 0
    high: int = 10

    @model_validator(mode="after")
    def in_order(self) -> Range:
        if self.low > self.high:
            raise ValueError("low must not be above high")
        return self


def test_a_rule_over_several_settings_names_the_section(project: Project) -> None:
    problem = project.problem({"WORKER_RANGE__LOW": "20"}, sections={"range": Range})
    assert str(problem) == "range: low must not be above high"


def test_section_asks_for_the_right_type(project: Project) -> None:
    loaded = project.read()
    with pytest.raises(TypeError, match="section 'lock' is a LockSettings, not a MailSettings"):
        loaded.section("lock", MailSettings)
    with pytest.raises(KeyError):
        loaded.section("nowhere")


def test_what_a_factory_makes_comes_below_files_and_environment(project: Project) -> None:
    project.write("workfleet.yaml", "lock: {retries: 9}\n")
    loaded = project.read({"WORKER_LOCK__KEY_PREFIX": "env"}, given={"lock": {"default_ttl": "5s"}})
    made = LockSettings(retries=1, key_prefix="made", default_ttl=Duration("7s"))
    lock = loaded.with_given("lock", made).section("lock", LockSettings)
    assert (lock.retries, lock.key_prefix, str(lock.default_ttl), str(lock.retry_delay)) == (9, "env", "7s", "200ms")
    again = loaded.with_given("lock", {"retry_delay": timedelta(seconds=1)})
    assert str(again.section("lock", LockSettings).retry_delay) == "1s"
    assert str(again.origins["lock.retry_delay"]) == "code"
    assert str(loaded.section("lock", LockSettings).retry_delay) == "200ms", "the first stays as it was"


def test_what_the_code_gives_is_judged_too(project: Project) -> None:
    problems = project.problems(given={"lock": {"retrys": 1, "default_ttl": "5"}, "lokc": {"a": 1}})
    assert [(one.name, one.origin) for one in problems] == [
        ("lock.retrys", "code"), ("lokc", "code"), ("lock.default_ttl", "code"),
    ]  # fmt: skip
