"""What `config show` and `config check` tell, and that the documentation lists every setting."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pydantic import BaseModel, SecretStr

from tests.settings.conftest import Project
from workfleet.settings import reference, report
from workfleet.settings.sections import BUILT_IN
from workfleet.settings.tree import leaves, tree
from workfleet.units import Size

DOCUMENT = Path(__file__).parents[2] / "docs" / "settings.md"


class Mail(BaseModel):
    host: str = "localhost"
    password: SecretStr | None = None
    largest: Size = Size("1MB")


def rows(project: Project, env: dict[str, str], **kw: object) -> dict[str, tuple[str, str, str, str]]:
    found = report.rows(project.read(env, {"mail": Mail}, **kw))
    assert len({row.name for row in found}) == len(found), "a setting is listed twice"
    return {row.name: (row.value, row.origin, row.default, row.note) for row in found}


def test_every_setting_is_a_row_with_its_origin(project: Project) -> None:
    project.write("workfleet.yaml", "lock: {retries: 9}\npools: {images: {size: 4, health_check: {interval: none}}}\n")
    project.write(".env", "WORKER_POLL=5s\n")
    env = {
        "WORKER_QUEUES": "a,b", "APP_VERSION": "1.2", "WORKER_SCHEDULER__TIMEZONE": "Asia/Tokyo",
        "REDIS_PASSWORD": "hush", "REDIS_URL": "redis://u:hush@h/1", "WORKER_MAIL__PASSWORD": "hush",
        "DB_HOST": "db", "WORKER_LOG__LEVELS__SHOP": "debug", "WORKER_JOBS__A_B__ENABLED": "off",
        "WORKER_POOLS__IMAGES__RESTART_POLICY__MAX_RESTARTS": "5",
    }  # fmt: skip
    found = rows(project, env, cli={"processes": 2}, given={"health": {"store": False}})
    later, database = (
        "used by the Redis store and by RedisModule",
        "used by metrics in PostgreSQL and by the database module",
    )
    expected = {
        "WORKER_PROCESSES": ("2", "command line", "1", ""),
        "WORKER_QUEUES": ("a,b", "environment", "none", ""),
        "WORKER_POLL": ("5s", ".env:1", "10s", ""),
        "WORKER_LOCK__RETRIES": ("9", "workfleet.yaml:1", "3", ""),
        "WORKER_POOLS__IMAGES__SIZE": ("4", "workfleet.yaml:2", "as in the code", ""),
        "WORKER_POOLS__IMAGES__HEALTH_CHECK__INTERVAL": ("none", "workfleet.yaml:2", "as in the code", ""),
        "WORKER_POOLS__IMAGES__RESTART_POLICY__MAX_RESTARTS": ("5", "environment", "as in the code", ""),
        "WORKER_POOLS__RESTART_POLICY__MAX_RESTARTS": ("3", "default", "3", ""),
        "WORKER_HEALTH__STORE": ("false", "code", "true", ""),
        "WORKER_HEALTH__VERSION": ("1.2", "environment (APP_VERSION)", "none", ""),
        "WORKER_RELEASE": ("1.2", "environment (APP_VERSION)", "none", ""),
        "WORKER_TIMEZONE": (
            "Asia/Tokyo", "environment (WORKER_SCHEDULER__TIMEZONE)", "UTC", "also WORKER_SCHEDULER__TIMEZONE",
        ),
        "WORKER_LOG__LEVELS__SHOP": ("debug", "environment", "none", ""),
        "WORKER_JOBS__A_B__ENABLED": ("false", "environment", "as in the code", ""),
        "REDIS_PASSWORD": ("********", "environment", "none", later),
        "REDIS_URL": ("redis://u:********@h/1", "environment", "none", later),
        "REDIS_HOST": ("127.0.0.1", "default", "127.0.0.1", later),
        "DB_HOST": ("db", "environment", "none", database),
        "DB_PASS": ("none", "default", "none", database),
        "WORKER_MAIL__HOST": ("localhost", "default", "localhost", ""),
        "WORKER_MAIL__PASSWORD": ("********", "environment", "none", ""),
        "WORKER_MAIL__LARGEST": ("1MB", "default", "1MB", ""),
        "WORKER_LEASE": ("30s", "default", "30s", ""),
    }  # fmt: skip
    assert {name: found[name] for name in expected} == expected
    assert "WORKER_SCHEDULER__TIMEZONE" not in found
    assert "WORKER_JOBS__A_B__CRON" not in found


def test_the_rows_for_programs_keep_their_types(project: Project) -> None:
    loaded = project.read({"WORKER_QUEUES": "a", "REDIS_PASSWORD": "hush"}, {"mail": Mail})
    documents = report.as_json(loaded)
    json.dumps(documents)
    values = {document["name"]: document["value"] for document in documents}
    assert (values["WORKER_QUEUES"], values["WORKER_PROCESSES"], values["WORKER_QUEUE_ENABLED"]) == (["a"], 1, True)
    assert (values["WORKER_LEASE"], values["WORKER_MAIL__LARGEST"]) == ("30s", "1MB")
    assert (values["WORKER_STORE"], values["REDIS_PASSWORD"], values["DB_PASS"]) == (None, "********", None)
    assert list(documents[0]) == ["name", "key", "value", "origin", "default", "note", "description"]


def test_the_text_is_a_table_with_the_warnings_below(project: Project) -> None:
    loaded = project.read({"WORKER_FOO": "1", "WORKER_PROCESSES": "2"})
    assert report.show_text(loaded, given_only=True).splitlines() == [
        "SETTING           VALUE  FROM         NOTE",
        "WORKER_PROCESSES  2      environment",
        "warning: WORKER_FOO (environment) is not a setting of workfleet or of this app: ignored",
    ]
    assert len(report.show_text(loaded).splitlines()) == len(report.rows(loaded)) + 2
    assert report.check_text(loaded).splitlines() == [
        "settings: all right, 1 given, the others have their defaults",
        "warning: WORKER_FOO (environment) is not a setting of workfleet or of this app: ignored",
    ]


def test_the_document_lists_every_setting() -> None:
    text = DOCUMENT.read_text(encoding="utf-8")
    assert reference.written(text) == text, "run: python -m workfleet.settings.reference docs/settings.md"
    for leaf in leaves(tree(BUILT_IN)):
        assert f"`{'.'.join(leaf.path)}`" in text
        assert leaf.description.endswith("."), f"{leaf.path} needs a description"
        assert leaf.allowed, f"{leaf.path} does not say what is allowed"
    for name in ("REDIS_PASSWORD", "DB_PASS", "WORKER_JOBS__NAME__ENABLED", "WORKER_POOLS__NAME__SIZE", "APP_VERSION"):
        assert f"`{name}`" in text


def test_a_document_without_its_marks_is_refused() -> None:
    with pytest.raises(ValueError, match="needs the lines"):
        reference.written("# Settings\n")
