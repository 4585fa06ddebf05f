"""Opening the Redis store: every way to a server, and the servers that it refuses."""

from __future__ import annotations

import asyncio
import ssl
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.stores.redis.servers import Server
from workfleet.clock import SystemClock
from workfleet.errors import StoreUnavailable
from workfleet.stores.redis.store import RedisStore

PASSWORD = "p#/@:%+ w?rd"
QUOTED = quote(PASSWORD, safe="")


@asynccontextmanager
async def opened(url: str, app: str = "shop") -> AsyncIterator[RedisStore]:
    store = await RedisStore.open(url, app=app, clock=SystemClock())
    try:
        yield store
    finally:
        await store.close()


async def works(url: str) -> None:
    async with opened(url) as store:
        await store.keys.put_if_absent("k", b"v", 60_000)
        assert await store.keys.get("k") == b"v"


@pytest.fixture
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with a password, and a user who may do what the store needs."""
    user = ("me", "on", f">{PASSWORD}", "~wf:shop:*", "~shop:*", "&wf:shop:*", "+@all", "-@admin", "-@dangerous")
    made = Server(tmp_path_factory.mktemp("r"))
    made.start()
    made.ask("ACL", "SETUSER", *user)
    made.ask("CONFIG", "SET", "requirepass", PASSWORD)
    yield made
    made.stop()


@pytest.mark.parametrize(
    "form",
    [
        "redis://:{secret}@127.0.0.1:{port}/3",
        "redis://default:{secret}@localhost:{port}",
        "valkey://:{secret}@127.0.0.1:{port}",
        "redis://:{secret}@[::1]:{port}/1",
        "unix://:{secret}@{socket}?db=2",
        "redis://me:{secret}@127.0.0.1:{port}",
    ],
)
async def test_ways_to_a_server(guarded: Server, form: str) -> None:
    await works(form.format(secret=QUOTED, port=guarded.port, socket=guarded.socket))


@pytest.mark.parametrize("form", ["redis://{login}127.0.0.1:{port}", "unix://{login}{socket}"])
@pytest.mark.parametrize("login", ["", "me:s3cret@", ":s3cret@", f"nobody:{QUOTED}@"])
async def test_a_wrong_password_is_told_without_it(guarded: Server, login: str, form: str) -> None:
    with pytest.raises(StoreUnavailable) as refused:
        await works(form.format(login=login, port=guarded.port, socket=guarded.socket))
    said = str(refused.value)
    assert ": the server " in said
    assert "REDIS_PASSWORD" in said
    assert not refused.value.passing
    for secret in ("s3cret", PASSWORD, QUOTED):
        assert secret not in said + repr(refused.value.__context__) + repr(refused.value.__cause__)


async def test_the_database_is_the_one_named(server: Server) -> None:
    await works(f"redis://127.0.0.1:{server.port}/5")
    async with opened(server.url) as store:
        assert await store.keys.get("k") is None
    async with opened(f"redis://127.0.0.1:{server.port}/5") as store:
        assert await store.keys.get("k") == b"v"


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    made = tmp_path / "both.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost",
         "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-keyout", tmp_path / "key.pem", "-out", made],
        check=True, capture_output=True,
    )  # fmt: skip
    return made


@asynccontextmanager
async def encrypted(server: Server, certificate: Path) -> AsyncIterator[int]:
    """A port that speaks TLS before the server, which cannot."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate, certificate.with_name("key.pem"))
    tasks: set[asyncio.Task[None]] = set()

    async def pump(one: asyncio.StreamReader, other: asyncio.StreamWriter) -> None:
        try:
            while data := await one.read(65_536):
                other.write(data)
        except OSError:
            pass
        finally:
            other.close()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection("127.0.0.1", server.port)
        tasks.update(asyncio.create_task(pump(*ends)) for ends in ((reader, back), (there, writer)))

    listening = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    yield listening.sockets[0].getsockname()[1]
    listening.close()
    if tasks:
        await asyncio.wait(tasks, timeout=5)


async def test_tls(server: Server, certificate: Path) -> None:
    async with encrypted(server, certificate) as port:
        await works(f"rediss://localhost:{port}?ssl_ca_certs={quote(str(certificate))}")
        with pytest.raises(StoreUnavailable, match="certificate"):
            await works(f"rediss://localhost:{port}")


async def test_what_the_url_says_wrongly_is_not_waited_for(server: Server, tmp_path: Path) -> None:
    with pytest.raises(
        StoreUnavailable, match=r"has no such database \(DB index is out of range\)\. Correct"
    ) as refused:
        await works(f"redis://127.0.0.1:{server.port}/99")
    assert not refused.value.passing
    missing = tmp_path / "no.pem"
    with pytest.raises(StoreUnavailable, match=rf"its ssl_ca_certs, {missing}, cannot be read \(No such f") as refused:
        await works(f"rediss://127.0.0.1:{server.port}?ssl_ca_certs={quote(str(missing))}")
    assert not refused.value.passing


async def test_a_server_of_another_kind_than_the_url_says(server: Server) -> None:
    with pytest.raises(StoreUnavailable, match=r"it is no cluster.*Write redis:// instead of redis\+cluster://"):
        await works(f"redis+cluster://127.0.0.1:{server.port}")
    with pytest.raises(StoreUnavailable, match="what answers there is no sentinel"):
        await works(f"redis+sentinel://127.0.0.1:{server.port}/main")


async def test_nobody_is_there(own_server: Server) -> None:
    own_server.stop()
    with pytest.raises(
        StoreUnavailable, match=rf"store {own_server.url}: it cannot be reached \(Error 111 .*\)\. Check its URL"
    ):
        await works(own_server.url)


async def test_a_server_that_says_nothing(own_server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workfleet.stores.redis.dialing._CONNECT_S", 0.3)
    own_server.freeze()
    with pytest.raises(StoreUnavailable, match=r"it did not answer within 0\.3 s"):
        await works(own_server.url)


async def test_a_server_that_evicts_keys_is_refused(own_server: Server) -> None:
    own_server.ask("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
    with pytest.raises(StoreUnavailable, match=r"maxmemory-policy allkeys-lru.*Set maxmemory-policy to noeviction"):
        await works(own_server.url)


async def test_a_replica_is_refused(own_server: Server, server: Server) -> None:
    own_server.ask("REPLICAOF", "127.0.0.1", server.port)
    with pytest.raises(StoreUnavailable, match="it is a read-only replica"):
        await works(own_server.url)


async def test_its_time_is_the_servers(server: Server) -> None:
    async with opened(server.url) as store:
        before = SystemClock().now_ms()
        assert before <= await store.now_ms() <= SystemClock().now_ms()


async def test_it_shows_who_it_is(server: Server) -> None:
    async with opened(server.url, app="shop one"):
        listed = server.ask("CLIENT", "LIST")
        assert isinstance(listed, bytes)
        assert listed.count(b"name=workfleet:shop%20one ") == 2


async def test_check_writes(own_server: Server) -> None:
    async with opened(own_server.url) as store:
        await store.check()
        own_server.ask("CONFIG", "SET", "maxmemory", 1)
        with pytest.raises(StoreUnavailable, match="OOM"):
            await store.check()
