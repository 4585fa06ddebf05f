"""Secrets never reach a log line; what is no secret stays readable."""

from __future__ import annotations

import time
from dataclasses import dataclass

import pytest

from workfleet.observe.logs.redaction import Redactor


@pytest.mark.parametrize(
    "name",
    [
        "password",
        "DB_PASSWORD",
        "db_pass",
        "pwd",
        "userPassword",
        "passwordHash",
        "secret",
        "client_secret",
        "clientSecrets",
        "token",
        "access-token",
        "accessToken",
        "api_key",
        "apiKey",
        "apikey",
        "X-Api-Key",
        "APIKey",
        "private_key",
        "aws_access_key_id",
        "Authorization",
        "proxy-authorization",
        "credential",
        "credentials",
        "cookie",
        "Set-Cookie",
        "session_id",
        "jwt",
    ],
)
def test_names_of_secrets(name: str) -> None:
    assert Redactor().fields({name: "hunter2"}) == {name: "***"}
    assert Redactor().fields({name: 1234}) == {name: "***"}
    assert Redactor().fields({name: {"deep": "hunter2"}}) == {name: "***"}


@pytest.mark.parametrize(
    "name",
    [
        "author",
        "passenger",
        "compass",
        "monkey",
        "key",
        "cache_key",
        "unique_key",
        "tokens",
        "max_tokens",
        "token_count",
        "password_file",
        "secret_name",
        "secretary",
        "session",
        "job_id",
        "",
        "ключ",
    ],
)
def test_other_names(name: str) -> None:
    assert Redactor().fields({name: "visible"}) == {name: "visible"}


def test_flags_and_nothing_are_no_secrets() -> None:
    assert Redactor().fields({"password": None, "token": True, "secret": False}) == {
        "password": None,
        "token": True,
        "secret": False,
    }


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("redis://:hunter2@host:6379/0", "redis://:***@host:6379/0"),
        ("redis://user:hunter2@host", "redis://user:***@host"),
        ("at postgresql+psycopg://a:b%40c@h/db, then", "at postgresql+psycopg://a:***@h/db, then"),
        ("redis://:p#/@:w@host:6379/0", "redis://:***@host:6379/0"),
        ("rediss://u:a/b?c#d@[::1]:6379", "rediss://u:***@[::1]:6379"),
        ("two: http://a:b@c and http://d:e@f", "two: http://a:***@c and http://d:***@f"),
        ("redis://:it's@host", "redis://:***@host"),
        ("http://host:8080/path?email=a@b.c", "http://host:8080/path?email=a@b.c"),
        ("http://host:8080", "http://host:8080"),
        ("http://host/a:b", "http://host/a:b"),
        ("ssh://git@host/repo", "ssh://git@host/repo"),
        ("GET /x?token=abc&page=2&api_key=d", "GET /x?token=***&page=2&api_key=***"),
        ("Authorization: Bearer abcdefgh.ijkl-mn", "Authorization: Bearer ***"),
        ("a bearer of good news", "a bearer of good news"),
        ("{'password': 'hunter2', 'user': 'x'}", "{'password': '***', 'user': 'x'}"),
        ('{"api_key":"a\\"b","n":1}', '{"api_key":"***","n":1}'),
        ("Smtp(host='h', password=b'hunter2')", "Smtp(host='h', password=b'***')"),
        ("--password='a b'", "--password='***'"),
        ("token expired: 'x'", "token expired: 'x'"),
        ("nothing at all", "nothing at all"),
    ],
)
def test_text(text: str, masked: str) -> None:
    assert Redactor().text(text) == masked
    assert Redactor().text(masked) == masked
    assert Redactor().fields({"url": text}) == {"url": masked}


@dataclass
class Smtp:
    host: str
    password: str


class Rude:
    def __str__(self) -> str:
        raise RuntimeError("no")


def test_depth_and_kinds() -> None:
    deep: dict[str, object] = {"a": [{"token": "t", "urls": ("redis://:x@h",)}], "smtp": Smtp("h", "hunter2")}
    assert Redactor().fields(deep) == {
        "a": [{"token": "***", "urls": ["redis://:***@h"]}],
        "smtp": "Smtp(host='h', password='***')",
    }
    assert deep["a"] == [{"token": "t", "urls": ("redis://:x@h",)}], "the given value is not changed"


def test_values_become_plain() -> None:
    nested: object = "bottom"
    for _ in range(10):
        nested = [nested]
    fields = Redactor().fields(
        {"nan": float("nan"), "big": 10**5000, "rude": Rude(), "nested": nested, "long": range(3)}
    )
    assert fields["nan"] == "nan"
    assert fields["big"] == hex(10**5000)
    assert fields["rude"] == "<Rude: RuntimeError in __str__>"
    assert fields["nested"] == [[[[[["…"]]]]]]
    assert fields["long"] == "range(0, 3)"
    assert len(Redactor().fields({"list": list(range(5000))})["list"]) == 1000  # type: ignore[arg-type]


def test_further_names() -> None:
    assert Redactor(["iban"]).fields({"iban": "DE1", "IBAN": "DE2", "my_iban": "x"}) == {
        "iban": "***",
        "IBAN": "***",
        "my_iban": "x",
    }


def test_switched_off() -> None:
    off = Redactor(enabled=False)
    assert off.fields({"password": "x", "url": "redis://:y@h"}) == {"password": "x", "url": "redis://:y@h"}
    assert off.text("redis://:y@h") == "redis://:y@h"


@pytest.mark.parametrize(
    "hostile",
    [
        "a" * 1_000_000,
        "://" * 300_000 + "@",
        "://a:" * 200_000 + "@",
        "://a:b@" * 150_000,
        "a='" * 300_000,
        "a=" * 400_000,
        "?" * 1_000_000,
        "-" * 1_000_000 + "'",
    ],
)
def test_hostile_text_costs_no_more_than_its_length(hostile: str) -> None:
    before = time.process_time()
    Redactor().text(hostile)
    assert time.process_time() - before < 5
