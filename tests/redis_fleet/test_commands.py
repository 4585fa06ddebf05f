"""Every command, and what a `Client` can do, on a real server: each at least once, with what it says and does."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.cli.conftest import Project, Ran, make_project, wait_for
from tests.cli.test_main import ALL
from tests.stores.redis.servers import Server
from workfleet import Client, JobType, LockLost, NotFound, SyncClient
from workfleet.queues.actions import Acted

ELSEWHERE = {"run", "dev", "init", "version", "cron", "probe", "config show", "config check"}
"""They ask no store; but `run`, of which test_runs.py is."""
IN_POOL = """
@app.handler("total", queue="sums", pool="cpu")
def total(job: Job[int]) -> int:
    return job.data
"""
GREET = JobType("greet", dict[str, object], str, queue="greetings")


@pytest.fixture
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    made = Server(tmp_path_factory.mktemp("r"))
    made.start()
    yield made
    made.stop()


class Operator:
    """Runs commands, and notes which."""

    def __init__(self, project: Project) -> None:
        self.project, self.used = project, set[str]()

    def __call__(self, verb: str, *arguments: str, code: int = 0) -> Ran:
        self.used.add(verb)
        ran = self.project(*verb.split(), *arguments)
        assert ran.code == code, (verb, arguments, ran)
        return ran

    def states(self) -> dict[str, str]:
        return {each["id"]: each["state"] for each in self("jobs ls", "--queue", "greetings", "--json").documents}


@pytest.fixture
def operator(tmp_path: Path, server: Server) -> Operator:
    project = make_project(tmp_path)
    with (project.folder / "app.py").open("a") as app:
        app.write(IN_POOL)
    return Operator(Project(project.folder, {"WORKER_STORE": server.url}))


@pytest.mark.full
def test_every_command(operator: Operator, server: Server) -> None:
    prepare(operator)
    act_on_jobs(operator)
    act_on_queues(operator)
    act_on_schedules(operator)
    act_on_locks(operator, server)
    act_on_workers(operator)
    look_at_metrics(operator)
    verbs = {" ".join(path) for path, found in ALL.items() if not hasattr(found, "commands")}
    assert verbs - operator.used == ELSEWHERE


@pytest.mark.full
def test_doctor_names_keys_that_another_program_has_written(operator: Operator, server: Server) -> None:
    operator("enqueue", "greetings", "greet", '{"name": "Ada"}')
    server.ask("SET", "shop:greetings:stalled", "x")
    server.ask("RENAME", "shop:greetings:wait", "kept")
    server.ask("SET", "shop:greetings:wait", "x")
    looked = operator("doctor", code=3).out
    assert "PROBLEM  keys: shop:greetings:wait is a string and should be a list\n" in looked
    assert "PROBLEM  keys: shop:greetings:stalled is a string and should be a set\n" in looked
    assert "ok       memory" in looked
    refused = operator("queues ls", code=3).err
    assert "another program has written to a key of a queue (WRONGTYPE). `workfleet doctor` names the key" in refused
    server.ask("DEL", "shop:greetings:stalled")
    server.ask("RENAME", "kept", "shop:greetings:wait")
    assert "PROBLEM" not in operator("doctor").out


def prepare(operator: Operator) -> None:
    """A job that succeeded, one that failed, and nobody at work."""
    for name in ("Ada", "nobody"):
        operator("enqueue", "greetings", "greet", f'{{"name": "{name}"}}', "--id", name)
    assert operator.project("run", "--until-idle").code == 0
    assert operator.states() == {"Ada": "completed", "nobody": "failed"}
    operator("enqueue", "greetings", "greet", '{"name": "late"}', "--id", "late", "--delay", "1d")
    assert "not running" in operator("status", code=1).out
    assert "none works" in operator("doctor").out
    assert operator("bench", "--jobs", "100", "--json").documents


def act_on_jobs(operator: Operator) -> None:
    assert "Ada" in operator("jobs show", "Ada").out
    assert "failed" in operator("jobs explain", "nobody").out
    assert operator("jobs logs", "nobody").out.endswith("hello nobody\n")
    assert operator("jobs promote", "late").out == "1 job made ready\n"
    assert operator("jobs cancel", "late").out == "1 job cancelled\n"
    assert operator("jobs retry", "--text", "is there", "--dry-run").out == "1 job would be retried: nobody\n"
    assert operator("jobs retry", "nobody").out == "1 job made ready\n"
    assert operator.states() == {"Ada": "completed", "nobody": "waiting", "late": "failed"}
    assert operator("jobs delete", "Ada", "--yes").out == "1 job deleted\n"
    assert operator("jobs logs", "Ada", code=4).err.startswith("Error: there is no job")


def act_on_queues(operator: Operator) -> None:
    operator("queues pause", "greetings")
    (listed,) = [each for each in operator("queues ls", "--json").documents if each["queue"] == "greetings"]
    assert (listed["paused"], listed["waiting"], listed["workers"]) == (True, 1, [])
    operator("queues resume", "greetings")
    assert operator("queues show", "greetings", "--json").documents[0]["paused"] is False
    assert operator("queues purge", "greetings", "--dry-run").out.startswith("1 job")
    operator("queues purge", "greetings", "--yes")
    assert operator.states() == {"late": "failed"}


def act_on_schedules(operator: Operator) -> None:
    listed = {each["name"]: each for each in operator("schedules ls", "--json").documents}
    assert set(listed) == {"nightly", "off"}
    assert len(operator("schedules next", "nightly", "-n", "3", "--json").documents) == 3
    assert operator("schedules run", "nightly").out
    assert "disabled" in operator("schedules run", "off", code=1).err

    async def add(client: Client) -> None:
        await client.schedules.add("report:acme", GREET({"name": "acme"}), cron="0 6 * * 1")

    with closing(SyncClient(operator.project.environ["WORKER_STORE"], app="shop")) as client:
        client.run(add)
    assert operator("schedules show", "report:acme", "--json").documents[0]["cron"] == "0 6 * * 1"
    assert operator("schedules pause", "report:acme").code == 0
    assert operator("schedules show", "report:acme", "--json").documents[0]["paused"]
    assert operator("schedules resume", "report:acme").code == 0
    assert operator("schedules remove", "report:acme", "--yes").out == "report:acme is removed\n"
    assert operator("schedules add", "report:beta", "greet", '{"name": "beta"}', "--every", "1h").code == 0
    assert operator("schedules history", "report:beta", "--json").documents == []
    assert operator("schedules remove", "report:beta", "--yes").out == "report:beta is removed\n"


def act_on_locks(operator: Operator, server: Server) -> None:
    async def take(client: Client) -> None:
        async with client.locks.lock("ledger", ttl="1m"):
            # In a thread: a command runs a loop of its own.
            held.extend((await asyncio.to_thread(operator, "locks ls", "--json")).documents)
            await asyncio.to_thread(operator, "locks release", "ledger", "--yes")
            await asyncio.Event().wait()

    held = list[dict[str, object]]()
    with closing(SyncClient(server.url, app="shop")) as client, pytest.raises(LockLost):
        client.run(take)
    assert [each["name"] for each in held] == ["ledger"]
    assert operator("locks ls", "--json").documents == []


def act_on_workers(operator: Operator) -> None:
    running = operator.project.start("run", WORKER_POLL="1s")
    try:
        works = wait_for(lambda: workers(operator, "on"), "a worker works")
        assert operator("queues show", "greetings", "--json").documents[0]["workers"] == works
        assert operator("status").code == 0
        operator("workers quiet", *works)
        wait_for(lambda: workers(operator, "quiet"), "it is quiet")
        operator("workers quiet", "--undo", "--all", "--yes")
        wait_for(lambda: workers(operator, "on"), "it is no longer quiet")
        act_on_pools(operator)
        operator("workers recycle", *works)
        others = wait_for(lambda: set(workers(operator, "on")) - set(works), "another one works")
        operator("workers stop", *others)
        wait_for(lambda: not workers(operator, "on"), "nobody works")
    finally:
        running.terminate()
        running.communicate(timeout=60)


def act_on_pools(operator: Operator) -> None:
    """A job starts the pool; then it has one child more, and then another one."""
    operator("enqueue", "sums", "total", "7")
    began = len(wait_for(lambda: children(operator), "it has started"))
    operator("pools scale", "cpu", str(began + 1), "--yes")
    first = wait_for(lambda: len(found := children(operator)) == began + 1 and found, "there is one more")
    operator("pools recycle", "cpu", "--yes")
    wait_for(lambda: children(operator) - first and first - children(operator), "one has replaced another")


def children(operator: Operator) -> set[int]:
    """The process ids of those that are ready."""
    listed = operator("pools ls", "cpu", "--json").documents
    return {child["pid"] for pool in listed for child in pool["children"] if child["state"] == "ready"}


def look_at_metrics(operator: Operator) -> None:
    """What the worker wrote into the metric store when it stopped."""
    assert "workfleet_jobs_total" in operator("metrics ls").out
    queried = operator("metrics query", "workfleet_jobs_total", "-l", "job=total", "--json", "--since", "1h").documents
    assert sum(each["increase"] for each in queried) == 1
    assert "workfleet_jobs_total{" in operator("metrics export").out


def workers(operator: Operator, state: str) -> list[str]:
    """The ids of those in this state."""
    return [each["id"] for each in operator("workers ls", "--json").documents if each["state"] == state]


@pytest.mark.full
async def test_what_a_client_does(server: Server) -> None:
    async with Client(server.url, app="shop") as client:
        refs = await client.enqueue_many(GREET({"n": n}, id=f"j{n}") for n in range(3))
        assert [ref.id for ref in refs] == ["j0", "j1", "j2"]
        assert (await client.enqueue(GREET({}, id="j0"))).created is False
        assert [each.id for each in await client.jobs.list(queue="greetings")] == ["j2", "j1", "j0"]
        assert await acted(client.jobs.cancel("j0", "j1")) == ["cancelled", "cancelled"]
        assert await client.jobs.retry_all(queue="greetings") == 2
        assert await client.jobs.cancel_all(queue="greetings") == 3
        await client.jobs.delete("j0")
        with pytest.raises(NotFound):
            await client.jobs.get("j0")
        assert await client.queues.pause("greetings")
        assert (await client.queues.get("greetings")).paused
        assert await client.queues.resume("greetings")
        await client.enqueue(GREET({}, id="late", delay="1h"))
        await client.jobs.promote("late")
        assert (await client.queues.list())["greetings"].waiting == 1
        assert await client.queues.purge("greetings") == 1
        await client.schedules.add("s", GREET({}), every="1h")
        await client.schedules.pause("s")
        assert (await client.schedules.get("s")).paused
        await client.schedules.resume("s")
        assert (await client.schedules.trigger("s")).accepted
        assert await client.schedules.remove("s")
        async with client.locks.lock("l", ttl="1m") as lock:
            assert lock.fence > 0
            assert await client.locks.is_locked("l") == "yes"
            assert [each.name for each in await client.locks.list()] == ["lock:l"]
        assert await client.locks.is_locked("l") == "no"


async def acted(done: Awaitable[list[Acted]]) -> list[str]:
    return [each.result for each in await done]
