"""The Redis address: URL forms, single settings, and passwords with every sign in them."""

from __future__ import annotations

import pytest

from tests.settings.conftest import Project
from workfleet.settings import check_redis_url
from workfleet.stores.redis.address import parse

_PASSWORD = "p#/@:%+ word?[]ü"


@pytest.mark.parametrize(
    "url",
    [
        "redis://h",
        "redis://myuser:mypass@redis.example.com:6380/5",
        "valkeys://:p@h/1",
        "redis://[::1]:7000/2",
        "redis://h?db=3",
        "unix:///run/redis.sock?db=4",
        "unix://u:p@/run/redis.sock",
        "redis+cluster://h:7000",
        "rediss+sentinel://:p@h1:26379,h2,h3:1/mymaster/2",
    ],
)
def test_a_url_is_taken_as_it_is(project: Project, url: str) -> None:
    assert project.read({"REDIS_URL": url, "REDIS_HOST": "other"}).core.redis.store_url() == url
    assert project.read({"WORKER_STORE": url}).store_url("shop") == url


def read(url: str) -> tuple[object, ...]:
    """What the store understands."""
    said = parse(url)
    return said.tls, {"host": "127.0.0.1", "port": 6379, "db": 0, **said.options}


def test_single_settings_are_a_url_in_which_every_sign_survives(project: Project) -> None:
    redis = project.read({"REDIS_PASSWORD": _PASSWORD, "REDIS_USER": "a:b", "REDIS_DB": "7"}).core.redis
    options = {"host": "127.0.0.1", "port": 6379, "db": 7, "username": "a:b", "password": _PASSWORD}
    assert read(redis.store_url()) == (False, options)
    redis = project.read({"REDIS_HOST": "::1", "REDIS_PORT": "7000", "REDIS_TLS": "true"}).core.redis
    assert redis.store_url() == "rediss://[::1]:7000/0"
    assert read(redis.store_url()) == (True, {"host": "::1", "port": 7000, "db": 0})
    assert project.read({"REDIS_PASSWORD": ""}).core.redis.store_url() == "redis://127.0.0.1:6379/0"


@pytest.mark.parametrize(
    ("url", "tls"),
    [
        ("redis://h", "rediss://h"),
        ("valkey://h", "valkeys://h"),
        ("rediss://h", "rediss://h"),
        ("redis+sentinel://h/main", "rediss+sentinel://h/main"),
    ],
)
def test_tls_holds_for_the_url_too(project: Project, url: str, tls: str) -> None:
    assert project.read({"REDIS_URL": url, "REDIS_TLS": "true"}).core.redis.store_url() == tls


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("redis://:p#ss@h", "is the password percent-encoded"),
        ("redis://:p/ss@h", "is the password percent-encoded"),
        ("redis://:p?ss@h", "is the password percent-encoded"),
        ("redis://:p@ss@h", "is the password percent-encoded"),
        ("redis://:p[ss@h", "is the password percent-encoded"),
        ("redis://h:99999", "it cannot be read"),
        ("redis://", "it cannot be read"),
        ("redis://h:0", "it cannot be read"),
        ("http://h", "its scheme is not redis, rediss, valkey, valkeys or unix"),
        ("redis://h/x", "the database in it is not a number"),
        ("unix://", "it names no socket"),
        ("redis+sentinel://h1,h2/main/x", "the database in it is not a number"),
    ],
)
def test_another_url_is_refused_without_repeating_it(url: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason) as caught:
        check_redis_url(url)
    assert "ss@" not in str(caught.value)
    assert caught.value.__cause__ is None
