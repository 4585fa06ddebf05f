"""TLS with servers that speak it themselves: a certificate authority of one's own, a wrong one, Sentinel, and the named
clients of an application. Only some builds of a server can do it."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.app.working import Worker
from tests.stores.redis.servers import OTHERS, Server
from workfleet import App, RedisClient, RedisClients, RedisModule
from workfleet.clock import SystemClock
from workfleet.errors import StoreUnavailable
from workfleet.stores.redis.store import RedisStore
from workfleet.testing.contracts.harness import claim, ended, jobs

pytestmark = pytest.mark.full
PASSWORD = "p#/@:%+ w?rd"
SECRET = quote(PASSWORD, safe="")


class Authority:
    """Signs a certificate for localhost."""

    def __init__(self, folder: Path) -> None:
        self.root, self.key, self.certificate = folder / "ca.pem", folder / "key.pem", folder / "cert.pem"
        root_key, request, names = folder / "ca.key", folder / "csr.pem", folder / "names"
        names.write_text("subjectAltName=DNS:localhost,IP:127.0.0.1")
        new = ["-newkey", "rsa:2048", "-nodes"]
        for command in (
            ["req", "-x509", *new, "-days", "2", "-subj", "/CN=our ca", "-keyout", root_key, "-out", self.root],
            ["req", *new, "-subj", "/CN=localhost", "-keyout", self.key, "-out", request],
            ["x509", "-req", "-in", request, "-days", "2", "-CA", self.root, "-CAkey", root_key, "-CAcreateserial",
             "-extfile", names, "-out", self.certificate],
        ):  # fmt: skip
            subprocess.run(["openssl", *command], check=True, capture_output=True)

    def options(self, port: int) -> list[str]:
        """What makes a server speak nothing else on that port."""
        return [
            "--port", "0", "--tls-port", str(port), "--tls-cert-file", str(self.certificate), "--tls-key-file",
            str(self.key), "--tls-ca-cert-file", str(self.root), "--tls-auth-clients", "no", "--tls-replication", "yes",
        ]  # fmt: skip


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("ca"))


@pytest.fixture(scope="module")
def tls_binary() -> str:
    """A server that can speak TLS, whichever it is."""
    for binary in filter(None, OTHERS.values()):
        command = [binary, "--port", "0", "--tls-port", "1"]
        tried = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
        if "tls-cert-file" in tried.stdout:
            return binary
    pytest.skip(f"no server that was built with TLS: {', '.join(filter(None, OTHERS.values()))}")


@pytest.fixture
def encrypted(tmp_path_factory: pytest.TempPathFactory, authority: Authority, tls_binary: str) -> Iterator[Server]:
    made = Server(tmp_path_factory.mktemp("r"), "--requirepass", PASSWORD, binary=tls_binary)
    made._command += authority.options(made.port)
    made.start()
    yield made
    made.stop()


async def works(url: str) -> None:
    store = await RedisStore.open(url, app="shop", clock=SystemClock())
    try:
        await store.jobs.enqueue(jobs("a"))
        (held,) = await claim(store)
        assert (await store.jobs.settle([ended(held)])).applied == [True]
    finally:
        await store.close()


async def test_the_authority_is_given(encrypted: Server, authority: Authority) -> None:
    root = quote(str(authority.root))
    await works(f"rediss://:{SECRET}@localhost:{encrypted.port}/2?ssl_ca_certs={root}")


async def test_the_authority_is_not_known(encrypted: Server, tmp_path: Path) -> None:
    wrong = Authority(tmp_path)
    for given in ("", f"?ssl_ca_certs={quote(str(wrong.root))}"):
        with pytest.raises(StoreUnavailable) as refused:
            await works(f"rediss://:{SECRET}@localhost:{encrypted.port}{given}")
        said = str(refused.value)
        assert "its certificate is not trusted (" in said
        assert "ssl_ca_certs" in said
        assert PASSWORD not in said
        assert SECRET not in said


async def test_the_name_is_another(encrypted: Server, authority: Authority) -> None:
    with pytest.raises(StoreUnavailable, match=r"not trusted .*::1"):
        await works(f"rediss://:{SECRET}@[::1]:{encrypted.port}?ssl_ca_certs={quote(str(authority.root))}")


async def test_only_the_server_speaks_tls(encrypted: Server) -> None:
    with pytest.raises(StoreUnavailable, match=r"it cannot be reached \(.* where it wants TLS, write rediss://"):
        await works(f"redis://localhost:{encrypted.port}")


async def test_only_the_store_speaks_tls(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workfleet.stores.redis.dialing._CONNECT_S", 1.0)
    with pytest.raises(StoreUnavailable, match=r"it did not answer within 1 s\. Check that it speaks TLS at that port"):
        await works(f"rediss://localhost:{server.port}")


async def test_a_file_is_missing(encrypted: Server) -> None:
    with pytest.raises(StoreUnavailable, match="No such file"):
        await works(f"rediss://:{SECRET}@localhost:{encrypted.port}?ssl_ca_certs=/nowhere.pem")


@pytest.fixture
def watched(
    encrypted: Server, tmp_path_factory: pytest.TempPathFactory, authority: Authority, tls_binary: str
) -> Iterator[Server]:
    """A sentinel of the encrypted server."""
    folder = tmp_path_factory.mktemp("r")
    rules = folder / "sentinel.conf"
    rules.write_text(f'sentinel monitor main 127.0.0.1 {encrypted.port} 1\nsentinel auth-pass main "{PASSWORD}"\n')
    sentinel = Server(folder, sentinel=rules, binary=tls_binary)
    sentinel._command += authority.options(sentinel.port)
    sentinel.start()
    yield sentinel
    sentinel.stop()


async def test_sentinel_with_tls(watched: Server, authority: Authority) -> None:
    root = quote(str(authority.root))
    url = f"rediss+sentinel://:{SECRET}@localhost:{watched.port}/main/0?ssl_ca_certs={root}"
    await works(url)
    with pytest.raises(StoreUnavailable):
        await works(f"rediss+sentinel://:{SECRET}@localhost:{watched.port}/main/0")


async def test_named_clients_on_different_servers(
    encrypted: Server, watched: Server, server: Server, authority: Authority, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """One plain, one on another database, one with TLS, one that sentinels know."""
    (tmp_path / ".git").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REDIS_URL", f"redis://127.0.0.1:{server.port}/1")
    root = quote(str(authority.root))
    urls = {
        "lock": RedisClient(db=5),
        "secret": f"rediss://:{SECRET}@localhost:{encrypted.port}/3?ssl_ca_certs={root}",
        "watched": f"rediss+sentinel://:{SECRET}@localhost:{watched.port}/main/4?ssl_ca_certs={root}",
    }
    async with Worker(App("x", modules=[RedisModule(clients=urls)]), heartbeat_enabled=False) as worker:
        clients = await worker.get(RedisClients)
        for name in ("default", *urls):
            await clients.get(name).set("a", name)
        assert [await clients.get(name).get("a") for name in ("default", *urls)] == [
            b"default", b"lock", b"secret", b"watched",
        ]  # fmt: skip
        await clients.get("watched").execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "no")
        assert await clients.get("watched").get("a") == b"watched"
        assert await clients.get("secret").get("a") == b"secret"
    assert server.ask("INFO", "keyspace").count(b"keys=1,") == 2  # type: ignore[attr-defined]
