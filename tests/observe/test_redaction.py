"""Secrets never reach a log line; what is no secret stays readable."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass

import pytest

from workfleet.observe.logs.redaction import Redactor

from .unreadable import Gone, Mute


@pytest.mark.parametrize(
    "name",
    [
        "password",
        "DB_PASSWORD",
        "db_pass",
        "pwd",
        "passwd",
        "passphrase",
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
        "auth",
        "bearer",
        "signing_key",
        "SESSION-ID",
    ],
)
def test_names_of_secrets(name: str) -> None:
    assert Redactor().fields({name: "hunter2"}) == {name: "***"}
    assert Redactor().fields({name: 1234}) == {name: "***"}
    assert Redactor().fields({name: {"deep": "hunter2"}}) == {name: "***"}
    assert Redactor().text(f"{name}='a b', {name}=hunter2") == f"{name}='***', {name}=***"


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
        ("postgresql://user:p@ss@host/db", "postgresql://user:***@host/db"),
        ("redis://:@@@host", "redis://:***@host"),
        ("https://u:p@host/a@b", "https://u:***@host/a@b"),
        ("https://u:p@host?mail=a@b#c@d", "https://u:***@host?mail=a@b#c@d"),
        ("smtp://me@example.org:p@w@mail:25", "smtp://me@example.org:***@mail:25"),
        ("git+ssh://git@host:org/repo@v1", "git+ssh://git@host:org/repo@v1"),
        ("kafka://u:p@h1:9092,u:p@h2:9092", "kafka://u:***@h2:9092"),
        ("redis://:a@b@h1,redis://:c@d@h2", "redis://:***@h1,redis://:***@h2"),
        ("redis://:a/b@h1,redis://:c/d@h2", "redis://:***@h1,redis://:***@h2"),
        ("http://h:80/x,http://u:p/w@h", "http://h:80/x,http://u:***@h"),
        ("http://u:p@h/x(http://u:p@w@h)", "http://u:***@h/x(http://u:***@h)"),
        ("['redis://:p@w@h','a@b']", "['redis://:***@h','a@b']"),
        ("redis://:it's@host", "redis://:***@host"),
        ("http://host:8080/path?email=a@b.c", "http://host:8080/path?email=a@b.c"),
        ("http://host:8080", "http://host:8080"),
        ("http://[::1]:8080/a@b", "http://[::1]:8080/a@b"),
        ("http://host/a:b", "http://host/a:b"),
        ("ssh://git@host/repo", "ssh://git@host/repo"),
        ("GET /x?token=abc&page=2&api_key=d", "GET /x?token=***&page=2&api_key=***"),
        ("Authorization: Bearer abcdefgh.ijkl-mn", "Authorization: Bearer ***"),
        ("a bearer of good news", "a bearer of good news"),
        ("{'password': 'hunter2', 'user': 'x'}", "{'password': '***', 'user': 'x'}"),
        ('{"api_key":"a\\"b","n":1}', '{"api_key":"***","n":1}'),
        ("Smtp(host='h', password=b'hunter2')", "Smtp(host='h', password=b'***')"),
        ("--password='a b'", "--password='***'"),
        ("error='no login with password=\\'a b\\' there'", "error='no login with password=\\'***\\' there'"),
        (json.dumps({"a": json.dumps({"password": "p w", "n": 1})}), r"""{"a": "{\"password\": \"***\", \"n\": 1}"}"""),
        (json.dumps(json.dumps({"token": 'a"b\\', "n": 1})), r'''"{\"token\": \"***\", \"n\": 1}"'''),
        (json.dumps(json.dumps(json.dumps({"pwd": 'a"b'}))), r'''"\"{\\\"pwd\\\": \\\"***\\\"}\""'''),
        (repr({"a": json.dumps(json.dumps({"pwd": 'a"b'}))}), r"""{'a': '"{\\"pwd\\": \\"***\\"}"'}"""),
        ('{"password": "cut of', '{"password": "***'),
        ('"{\\"password\\": \\"cut of", "n": 1', '"{\\"password\\": \\"***", "n": 1'),
        ("password='cut of\nnext", "password='***\nnext"),
        ("password=hunter2", "password=***"),
        ("host=h password=p@s,s dbname=d", "host=h password=*** dbname=d"),
        ("Server=h;Password=a;b&c;Database=d", "Server=h;Password=***;Database=d"),
        ("username=u&password=p&page=2", "username=u&password=***&page=2"),
        ("Smtp(host=h, passwd=it's, api_key=k)", "Smtp(host=h, passwd=***, api_key=***)"),
        ("a=1,secret=x,b=2", "a=1,secret=***,b=2"),
        ("a=secret=x", "a=secret=***"),
        ("--token=x --PGPASSWORD=y", "--token=*** --PGPASSWORD=***"),
        ("sh -c 'login --token=x'", "sh -c 'login --token=***'"),
        ('{"cmd": "login --token=x"}', '{"cmd": "login --token=***"}'),
        (r'"{\"cmd\": \"login --token=x\"}"', r'"{\"cmd\": \"login --token=***\"}"'),
        ("password=None, token=true secret= pwd=<hidden>", "password=None, token=true secret= pwd=<hidden>"),
        ("if token==other or token != x or token = x", "if token==other or token != x or token = x"),
        ("max_tokens=5 password_file=/run/x key=k", "max_tokens=5 password_file=/run/x key=k"),
        ("unexpected token: x; the password: wrong", "unexpected token: x; the password: wrong"),
        ("Authorization: Basic dTpw\r\nHost: h", "Authorization: Basic ***\r\nHost: h"),
        ("AUTHORIZATION: BEARER x, then", "AUTHORIZATION: BEARER ***, then"),
        ("proxy-authorization=Bearer x:y z", "proxy-authorization=Bearer *** z"),
        ("Authorization: required", "Authorization: required"),
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


def test_what_cannot_be_read_costs_no_other_field() -> None:
    fields = {"row": Gone(), "rude": {Mute(): 1}, "deep": {"list": [Gone()], "a": 1}, 7: 1, Mute(): 2, "b": 3}
    assert Redactor().fields(fields) == {  # type: ignore[arg-type]
        "row": "<Gone: KeyError in reading it>",
        "rude": {"<Mute: RuntimeError in __str__>": 1},
        "deep": {"list": "<list: KeyError in reading it>", "a": 1},
        "7": 1,
        "<Mute: RuntimeError in __str__>": 2,
        "b": 3,
    }


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
        {"nan": float("nan"), "big": 10**5000, "rude": Mute(), "nested": nested, "long": range(3)}
    )
    assert fields["nan"] == "nan"
    assert fields["big"] == hex(10**5000)
    assert fields["rude"] == "<Mute: RuntimeError in __str__>"
    assert fields["nested"] == [[[[[["…"]]]]]]
    assert fields["long"] == "range(0, 3)"
    assert len(Redactor().fields({"list": list(range(5000))})["list"]) == 1000  # type: ignore[arg-type]


def test_further_names() -> None:
    assert Redactor(["iban"]).fields({"iban": "DE1", "IBAN": "DE2", "my_iban": "x"}) == {
        "iban": "***",
        "IBAN": "***",
        "my_iban": "x",
    }


def test_further_names_in_text() -> None:
    redactor = Redactor(["iban", "card number"])
    assert redactor.text("Iban=1 my_iban=2 cardNumber='3' number=4") == "Iban=*** my_iban=2 cardNumber='***' number=4"
    assert Redactor(["ключ"]).text("ключ=1") == "ключ=***"


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
        "@ " + "://a:" * 200_000,
        "@ " + "://a:b/c," * 100_000,
        "://a:" + "'," * 400_000 + "@",
        "://a:b/" + "@,a" * 300_000,
        "@" + ",a" * 500_000 + "://",
        "token=\\'" + "a" * 1_000_000,
        "token='" + "\\" * 1_000_000,
        "token='" + "\\'" * 500_000,
        "token=" + "\\" * 1_000_000 + "'",
        "token=" + ",a" * 500_000,
        "token=',token=\\\\\"" * 100_000,
        "".join(f"token={slashes * chr(92)}{quote}" for slashes in range(7, -1, -1) for quote in "'\"") * 4_000,
        "token=" * 200_000,
        "a=token=" * 150_000,
        "authorization=" * 80_000,
        "authorization: basic " * 50_000,
    ],
)
def test_hostile_text_costs_no_more_than_its_length(hostile: str) -> None:
    before = time.process_time()
    Redactor().text(hostile)
    assert time.process_time() - before < 5
