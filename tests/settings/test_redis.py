"""The Redis address: URL forms, single settings, and passwords with every sign in them."""

from __future__ import annotations

from urllib.parse import quote

import pytest

from tests.settings.conftest import Project
from workfleet.settings import parse_redis_url
from workfleet.settings.redis import RedisAddress


def facts(address: RedisAddress) -> tuple[object, ...]:
    password = address.password.get_secret_value() if address.password else None
    return (address.host, address.port, address.path, address.user, password, address.database, address.tls)


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("redis://h", ("h", 6379, None, None, None, 0, False)),
        (
            "redis://myuser:mypass@redis.example.com:6380/5",
            ("redis.example.com", 6380, None, "myuser", "mypass", 5, False),
        ),
        ("rediss://:p@h/1", ("h", 6379, None, None, "p", 1, True)),
        ("redis://[::1]:7000/2", ("::1", 7000, None, None, None, 2, False)),
        ("redis://h?db=3", ("h", 6379, None, None, None, 3, False)),
        ("unix:///run/redis.sock?db=4", ("127.0.0.1", 6379, "/run/redis.sock", None, None, 4, False)),
        ("unix://u:p@/run/redis.sock", ("127.0.0.1", 6379, "/run/redis.sock", "u", "p", 0, False)),
    ],
)
def test_a_url_is_read(url: str, expected: tuple[object, ...]) -> None:
    assert facts(parse_redis_url(url)) == expected


_PASSWORD = "p#/@:%+ word?[]ü"


def test_a_password_survives_as_it_is_and_percent_encoded(project: Project) -> None:
    address = project.read({"REDIS_PASSWORD": _PASSWORD, "REDIS_USER": "ann"}).core.redis.address()
    assert facts(address) == ("127.0.0.1", 6379, None, "ann", _PASSWORD, 0, False)
    url = f"rediss://a%3Ab:{quote(_PASSWORD, safe='')}@h:1/2"
    address = project.read({"REDIS_URL": url, "REDIS_HOST": "other"}).core.redis.address()
    assert facts(address) == ("h", 1, None, "a:b", _PASSWORD, 2, True)


def test_tls_holds_for_the_url_too(project: Project) -> None:
    assert project.read({"REDIS_URL": "redis://h", "REDIS_TLS": "true"}).core.redis.address().tls is True


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
        ("http://h", "its scheme is not redis, rediss or unix"),
        ("redis://h/x", "the database in it is not a number"),
        ("unix://", "it names no socket"),
    ],
)
def test_another_url_is_refused_without_repeating_it(url: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason) as caught:
        parse_redis_url(url)
    assert "ss@" not in str(caught.value)
    assert caught.value.__cause__ is None
