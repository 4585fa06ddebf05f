"""`setting("path")`: looked up when the application starts."""

from __future__ import annotations

from datetime import timedelta

import pytest
from pydantic import BaseModel

from tests.settings.conftest import Project
from workfleet.errors import ConfigError
from workfleet.model.setting import Setting, setting
from workfleet.units import Duration


class Mail(BaseModel):
    poll_every: Duration = Duration("5m")
    labels: dict[str, str] = {}


def test_a_path_is_resolved_in_sections_and_in_the_core(project: Project) -> None:
    env = {"WORKER_MAIL__POLL_EVERY": "1m", "WORKER_MAIL__LABELS__TEAM": "ops", "WORKER_TIMEZONE": "Asia/Tokyo"}
    loaded = project.read(env, {"mail": Mail})
    assert loaded.resolve(setting("mail.poll_every")) == timedelta(minutes=1)
    assert loaded.resolve(setting("mail.labels.team")) == "ops"
    assert loaded.resolve(setting("timezone")) == "Asia/Tokyo"
    assert loaded.resolve(setting("scheduler.timezone")) == "Asia/Tokyo"
    assert loaded.resolve(setting("redis.host")) == "127.0.0.1"
    assert loaded.resolve(setting("scheduler.default_job_options.retries")) == 0


@pytest.mark.parametrize("value", ["5m", None, 3, ("a",)])
def test_other_values_come_back_as_they_are(project: Project, value: object) -> None:
    assert project.read().resolve(value) == value


@pytest.mark.parametrize(
    ("path", "hint"),
    [
        ("mail.pol_every", "; did you mean mail.poll_every?"),
        ("mail.poll_every.ms", "; did you mean mail.poll_every?"),
        ("nowhere.x", ""),
        ("mail.model_fields", ""),
        ("project", ""),
    ],
)
def test_a_path_that_leads_nowhere_is_a_configuration_error(project: Project, path: str, hint: str) -> None:
    loaded = project.read(sections={"mail": Mail})
    with pytest.raises(ConfigError) as caught:
        loaded.resolve(setting(path))
    assert str(caught.value.problems[0]) == f"setting({path!r}) (from code): there is no such setting{hint}"


@pytest.mark.parametrize("path", ["", ".", "a.", ".a", "a b", "1a"])
def test_what_cannot_be_a_path_is_refused_at_once(path: str) -> None:
    with pytest.raises(ValueError, match="is not the path of a setting"):
        setting(path)


def test_a_setting_is_a_value() -> None:
    assert setting("a.b") == Setting("a.b")
    assert hash(setting("a.b")) == hash(Setting("a.b"))
