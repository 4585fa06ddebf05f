"""URLs of a Redis store: every form, nothing of a secret in any message."""

from __future__ import annotations

import pytest

from workfleet.errors import ConfigError
from workfleet.stores.redis.address import parse
from workfleet.stores.redis.layout import Layout

SECRET = "p#/@:%+ w?rd"
QUOTED = "p%23%2F%40%3A%25%2B%20w%3Frd"


@pytest.mark.parametrize(
    ("url", "shown", "options"),
    [
        ("redis://localhost", "redis://localhost:6379/0", {"host": "localhost"}),
        ("redis://h:1/3", "redis://h:1/3", {"host": "h", "port": 1, "db": 3}),
        ("REDIS://h", "redis://h:6379/0", {"host": "h"}),
        ("valkey://h/3", "valkey://h:6379/3", {"host": "h", "db": 3}),
        ("redis://[::1]:7/2", "redis://[::1]:7/2", {"host": "::1", "port": 7, "db": 2}),
        (
            f"redis://me:{QUOTED}@h:1/0",
            "redis://h:1/0",
            {"host": "h", "port": 1, "db": 0, "username": "me", "password": SECRET},
        ),
        (f"redis://:{QUOTED}@h", "redis://h:6379/0", {"host": "h", "password": SECRET}),
        ("unix:///run/r.sock?db=2", "unix:///run/r.sock?db=2", {"path": "/run/r.sock", "db": 2}),
        (f"unix://:{QUOTED}@/run/r.sock", "unix:///run/r.sock?db=0", {"path": "/run/r.sock", "password": SECRET}),
        (
            "rediss://h?ssl_ca_certs=/ca.pem",
            "rediss://h:6379/0",
            {"host": "h", "ssl_ca_certs": "/ca.pem"},
        ),
    ],
)
def test_forms(url: str, shown: str, options: dict[str, object]) -> None:
    address = parse(url)
    assert (address.shown, address.options) == (shown, options)
    assert (address.tls, address.cluster, address.sentinels) == (url.startswith("rediss"), False, ())
    assert SECRET not in repr(address)
    assert QUOTED not in repr(address)


def test_an_option_that_needs_tls_says_so() -> None:
    with pytest.raises(ConfigError, match=r"redis://…: .*without TLS: ssl_ca_certs. Write rediss"):
        parse("redis://h?ssl_ca_certs=/ca.pem")
    assert parse("rediss+sentinel://h/main?ssl_ca_certs=/ca.pem").options["ssl_ca_certs"] == "/ca.pem"


def test_sentinels() -> None:
    address = parse(f"redis+sentinel://me:{QUOTED}@h1:1,[::1]:2,h3/main/4")
    assert (address.sentinels, address.service) == ((("h1", 1), ("::1", 2), ("h3", 26379)), "main")
    assert address.shown == "redis+sentinel://h1:1,[::1]:2,h3:26379/main/4"
    options = {name: address.options[name] for name in ("db", "username", "password")}
    assert options == {"db": 4, "username": "me", "password": SECRET}
    assert parse("rediss+sentinel://h/main").tls
    guarded = parse(f"redis+sentinel://:a@h/main?sentinel_username=me&sentinel_password={QUOTED}")
    assert guarded.sentinel_login == {"username": "me", "password": SECRET}
    assert guarded.options["password"] == "a"
    assert SECRET not in repr(guarded) + guarded.shown


@pytest.mark.parametrize("url", ["redis+cluster://h:1/3", "rediss+cluster://h:1?db=3"])
def test_a_cluster_has_no_other_database(url: str) -> None:
    with pytest.raises(ConfigError, match="a cluster has no database but 0"):
        parse(url)


def test_a_cluster() -> None:
    address = parse("redis+cluster://h:1")
    assert (address.cluster, address.shown) == (True, "redis+cluster://h:1/0")


@pytest.mark.parametrize(
    "url",
    [
        "http://x:s3cret@h",
        "redis:/:s3cret@h",
        "s3cret",
        "redis://:s3cret#x@h",
        "redis://:s3cret/x@h",
        "redis://:s3cret?x@h",
        "redis://:s3cret@h@x",
        "redis://:s3cret@h:99999",
        "redis://:s3cret@h:0",
        "redis://:s3cret@h/one",
        "redis://:s3cret@[::1",
        "unix://:s3cret@",
        "redis://:s3cret@h?db=s3cret",
        "redis://:s3cret@h?colour=s3cret",
        "rediss://:s3cret@h?ssl_colour=s3cret",
        "redis://:s3cret@h?ssl_ca_certs=/s3cret",
        "redis+sentinel://:s3cret@h1,h2",
        "redis+sentinel://:s3cret@,h2/main",
        "redis+sentinel://:s3cret@h:x/main",
        "",
    ],
)
def test_what_cannot_be_read_is_told_without_a_secret(url: str) -> None:
    with pytest.raises(ConfigError) as refused:
        parse(url)
    (problem,) = refused.value.problems
    assert problem.name == "WORKER_STORE"
    said = str(refused.value) + repr(refused.value.__context__)
    assert "s3cret" not in str(refused.value), said


def test_names_of_keys() -> None:
    plain = Layout("shop")
    assert plain.queue("mail", "wait") == "shop:mail:wait"
    assert plain.job("mail", "7") == "shop:mail:7"
    assert plain.ours("mail", "groups") == "shop:mail:wf:groups"
    assert plain.app("locks") == "wf:shop:locks"
    assert plain.named("value", "x:id") == "wf:shop:value:x:id:v"
    shared = Layout("shop", prefix="bull")
    assert (shared.queue("mail", "wait"), shared.app("locks")) == ("bull:mail:wait", "wf:shop:locks")


@pytest.mark.parametrize(
    ("prefix", "queue", "app"),
    [
        (None, "{shop}:mail:wait", "wf:{shop}:locks"),
        ("{bull}", "{bull}:mail:wait", "wf:{bull}:shop:locks"),
        ("x{bull}y", "x{bull}y:mail:wait", "wf:{bull}:shop:locks"),
        ("bull", "{bull}:mail:wait", "wf:{bull}:shop:locks"),
    ],
)
def test_in_a_cluster_all_keys_of_an_app_have_one_hash_tag(prefix: str | None, queue: str, app: str) -> None:
    layout = Layout("shop", prefix=prefix, cluster=True)
    assert (layout.queue("mail", "wait"), layout.app("locks")) == (queue, app)


def test_a_prefix_that_is_no_hash_tag_is_refused_in_a_cluster() -> None:
    with pytest.raises(ConfigError, match="queue_prefix"):
        Layout("shop", prefix="a{}b", cluster=True)
