"""Store URLs, the default store, and how Redis is refused until it is there."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.settings.conftest import Project
from workfleet.settings import default_store, sqlite_path, sqlite_url, store_scheme

_LATER = "the Redis store arrives with a later release; use WORKER_STORE=sqlite:///… or leave it unset"


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("sqlite:///srv/shop.db", "/srv/shop.db"),
        ("sqlite:////srv/shop.db", "/srv/shop.db"),
        ("sqlite:///srv/my%20shop%3F.db", "/srv/my shop?.db"),
    ],
)
def test_a_sqlite_url_names_an_absolute_path(project: Project, url: str, path: str) -> None:
    assert project.read({"WORKER_STORE": url}).core.store == url
    assert sqlite_path(url) == Path(path)
    assert store_scheme(url) == "sqlite"


@pytest.mark.parametrize("path", ["/srv/a b/ü#?%.db", "/x.db", "/srv/~home/x.db"])
def test_a_path_comes_back_from_its_url(path: str) -> None:
    assert sqlite_path(sqlite_url(Path(path))) == Path(path)


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("sqlite://data/shop.db", "a SQLite store is sqlite:///absolute/path/to/file.db"),
        ("sqlite://", "a SQLite store is sqlite:///absolute/path/to/file.db"),
        ("sqlite:///", "a SQLite store is sqlite:///absolute/path/to/file.db"),
        ("sqlite:shop.db", "a SQLite store is sqlite:///absolute/path/to/file.db"),
        ("sqlite:///./shop.db", "the path is relative"),
        ("sqlite:///~/shop.db", "the path is relative"),
        ("sqlite:///srv/../shop.db", "the path is relative"),
        ("sqlite:///srv/a.db?mode=ro", "has no '?' or '#'"),
        ("sqlite:///srv/a%00.db", "NUL character"),
        ("memory://x", "is written memory://"),
        ("postgres://u@h/db", "no store has that scheme"),
        ("shop.db", "no store has that scheme"),
        ("redis://h", _LATER),
        ("rediss://h", _LATER),
        ("valkey://h", _LATER),
    ],
)
def test_another_store_is_refused_with_the_reason(project: Project, url: str, reason: str) -> None:
    problem = project.problem({"WORKER_STORE": url})
    assert (problem.name, problem.value) == ("WORKER_STORE", url)
    assert reason in problem.message
    assert "allowed: memory:// or sqlite:/// with an absolute path" in problem.message


def test_the_default_store_is_a_file_of_the_app_in_the_project(project: Project) -> None:
    loaded = project.read()
    assert sqlite_path(loaded.store_url("shop")) == project.folder / ".workfleet" / "shop.db"
    assert project.read({"WORKER_STORE": "memory://"}).store_url("shop") == "memory://"


@pytest.mark.parametrize(
    ("app", "file"), [("../x", "_x.db"), ("a/b c", "a_b_c.db"), ("..", "app.db"), ("ü-1", "ü-1.db")]
)
def test_an_apps_name_never_leaves_the_folder(tmp_path: Path, app: str, file: str) -> None:
    assert sqlite_path(default_store(tmp_path, app)) == tmp_path / ".workfleet" / file


def test_redis_enabled_is_refused_until_it_is_there(project: Project) -> None:
    problem = project.problem({"REDIS_ENABLED": "true", "REDIS_URL": "redis://h"})
    assert str(problem) == f"REDIS_ENABLED = true (from environment): {_LATER}"


def test_two_stores_contradict_each_other(project: Project) -> None:
    project.write(".env", "REDIS_ENABLED=yes\n")
    problem = project.problem({"WORKER_STORE": "sqlite:///srv/shop.db"})
    assert problem.name == "REDIS_ENABLED and WORKER_STORE"
    assert (problem.value, problem.origin) == ("true and sqlite:///srv/shop.db", ".env:1 and environment")
    assert problem.message.startswith("contradict each other: one asks for Redis, the other for another store.")


def test_redis_asked_for_twice_is_one_problem(project: Project) -> None:
    problem = project.problem({"REDIS_ENABLED": "true", "WORKER_STORE": "redis://u:hush@h/0"})
    assert (problem.name, problem.value) == ("WORKER_STORE", "redis://u:********@h/0")


def test_a_redis_url_that_nothing_uses_is_said(project: Project) -> None:
    loaded = project.read({"REDIS_URL": "redis://:hush@h", "REDIS_ENABLED": "false"})
    assert loaded.warnings == (
        "REDIS_URL (environment) is set and not used: REDIS_ENABLED=true or WORKER_STORE choose the store",
    )
    assert loaded.core.store is None


def test_queues_without_queueing_are_said(project: Project) -> None:
    loaded = project.read({"WORKER_QUEUES": "a", "WORKER_QUEUE_ENABLED": "false"})
    assert loaded.warnings == ("WORKER_QUEUES (environment) has no effect: WORKER_QUEUE_ENABLED switches queues off",)
    assert project.read({"WORKER_QUEUES": "a"}).warnings == ()
