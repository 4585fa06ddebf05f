"""Store URLs, the default store, and which store it is when several settings name one."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.settings.conftest import Project
from workfleet.settings import default_store, sqlite_path, sqlite_url, store_scheme
from workfleet.stores.open import split_options


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
        ("redis://h?queue_prefix=bull", "a setting of its own: WORKER_QUEUE_PREFIX"),
        ("redis+x://h", "no store has that scheme"),
        ("redis://h/x", "the database in it is not a number"),
    ],
)
def test_another_store_is_refused_with_the_reason(project: Project, url: str, reason: str) -> None:
    problem = project.problem({"WORKER_STORE": url})
    assert (problem.name, problem.value) == ("WORKER_STORE", url)
    assert reason in problem.message
    assert "allowed: memory://, sqlite:/// with an absolute path" in problem.message


def test_the_default_store_is_a_file_of_the_app_in_the_project(project: Project) -> None:
    loaded = project.read()
    assert sqlite_path(loaded.store_url("shop")) == project.folder / ".workfleet" / "shop.db"
    assert project.read({"WORKER_STORE": "memory://"}).store_url("shop") == "memory://"


@pytest.mark.parametrize(
    ("app", "file"), [("../x", "_x.db"), ("a/b c", "a_b_c.db"), ("..", "app.db"), ("ü-1", "ü-1.db")]
)
def test_an_apps_name_never_leaves_the_folder(tmp_path: Path, app: str, file: str) -> None:
    assert sqlite_path(default_store(tmp_path, app)) == tmp_path / ".workfleet" / file


def test_redis_enabled_is_the_redis_of_its_settings(project: Project) -> None:
    loaded = project.read({"REDIS_ENABLED": "true", "REDIS_HOST": "h", "REDIS_PASSWORD": "p#", "REDIS_DB": "2"})
    assert loaded.store_url("shop") == "redis://:p%23@h:6379/2"
    assert loaded.names_store
    assert project.read({"REDIS_ENABLED": "true", "REDIS_URL": "redis://h/1"}).store_url("shop") == "redis://h/1"
    assert project.read({"REDIS_ENABLED": "true"}).store_url("shop") == "redis://127.0.0.1:6379/0"
    assert project.read({"REDIS_HOST": "h"}).store_url("shop").startswith("sqlite:")


def test_two_stores_contradict_each_other(project: Project) -> None:
    project.write(".env", "REDIS_ENABLED=yes\n")
    problem = project.problem({"WORKER_STORE": "sqlite:///srv/shop.db"})
    assert problem.name == "REDIS_ENABLED and WORKER_STORE"
    assert (problem.value, problem.origin) == ("yes and sqlite:///srv/shop.db", ".env:1 and environment")
    assert problem.message.startswith("contradict each other: one asks for Redis, the other for another store.")


def test_two_servers_contradict_each_other_and_no_password_is_shown(project: Project) -> None:
    environ = {"REDIS_ENABLED": "true", "REDIS_PASSWORD": "hush", "WORKER_STORE": "redis://u:mum@h/0"}
    problem = project.problem(environ)
    assert problem.name == "REDIS_PASSWORD and WORKER_STORE"
    assert problem.value == "******** and redis://u:********@h/0"
    assert problem.message.startswith("contradict each other: with REDIS_ENABLED=true each names a Redis server")


@pytest.mark.parametrize(
    ("environ", "url"),
    [
        ({"WORKER_STORE": "redis://u:p@h/0"}, "redis://u:p@h/0"),
        ({"WORKER_STORE": "redis://h", "REDIS_HOST": "h"}, "redis://h:6379/0"),
        ({"WORKER_STORE": "redis://h/0", "REDIS_URL": "redis://h:6379"}, "redis://h:6379"),
    ],
)
def test_redis_asked_for_twice_is_no_contradiction(project: Project, environ: dict[str, str], url: str) -> None:
    assert project.read({"REDIS_ENABLED": "true", **environ}).store_url("shop") == url


def test_the_command_line_is_above_redis_enabled_and_the_code_below(project: Project) -> None:
    environ = {"REDIS_ENABLED": "true", "REDIS_HOST": "h"}
    assert project.read(environ, cli={"store": "sqlite:///a.db"}).store_url("shop") == "sqlite:///a.db"
    code = {"": {"store": "sqlite:///a.db"}}
    assert project.read(environ, given=code).store_url("shop") == "redis://h:6379/0"


def test_the_prefix_of_queues_is_part_of_a_redis_store_only(project: Project) -> None:
    environ = {"WORKER_QUEUE_PREFIX": "{bull}:a b", "WORKER_STORE": "redis://:p%3F@h/1?ssl_check_hostname=false"}
    environ["WORKER_QUEUE_METRICS"] = "14d"
    url = project.read(environ).store_url("shop")
    assert split_options(url) == (environ["WORKER_STORE"], {"queue_prefix": "{bull}:a b", "queue_metrics": "20160"})
    assert split_options(environ["WORKER_STORE"]) == (environ["WORKER_STORE"], {})
    loaded = project.read({"WORKER_QUEUE_PREFIX": "bull"})
    assert loaded.store_url("shop").endswith("/.workfleet/shop.db")
    assert loaded.warnings == ("WORKER_QUEUE_PREFIX (environment) has no effect: only a Redis store has key names",)
    for prefix in ("wf", "wf:x", "a\x07b"):
        assert project.problem({"WORKER_QUEUE_PREFIX": prefix}).name == "WORKER_QUEUE_PREFIX"


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
