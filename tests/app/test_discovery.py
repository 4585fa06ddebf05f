"""What is found in modules and packages: inherited and overridden methods, duplicates, contradictions, mistakes."""

from pathlib import Path
from typing import Any

import pytest

from tests.app.working import composed, problems, write
from workfleet import App, ConfigError, Job, JobType, Module, handler, locked, process, public, queue, schedule
from workfleet.model.declared import guards_of

pytestmark = pytest.mark.usefixtures("project")

WELCOME = JobType("welcome", int, queue="emails")


@queue("emails", concurrency=20)
class Emails:
    @handler(WELCOME)
    async def welcome(self, job: Job[int]) -> None: ...

    @handler("goodbye", attempts=5)
    async def farewell(self, job: Job[int]) -> None: ...

    @handler()
    async def plain(self, job: Job[int]) -> None: ...

    @handler(queue="elsewhere")
    async def other(self, job: Job[int]) -> None: ...


class Tidy:
    @schedule(every="1h")
    async def hourly(self) -> None: ...

    @schedule("named", cron="0 3 * * *")
    async def nightly(self) -> None: ...


def places(app: App) -> list[tuple[str, str, str]]:
    """Queue, name and place of each handler of the application's own."""
    registry = composed(app).registry
    return [(e.queue, e.name, e.code.label) for e in registry.handlers if not e.name.startswith("worker.")]


def schedules(app: App) -> list[tuple[str, str]]:
    return [(e.name, e.code.label) for e in composed(app).registry.schedules if not e.name.startswith("worker.")]


def test_handlers_and_schedules_of_a_module() -> None:
    app = App("shop", modules=[Module("mail", jobs=[Emails, Tidy])])
    assert sorted(places(app)) == [
        ("elsewhere", "other", "Emails.other"),
        ("emails", "goodbye", "Emails.farewell"),
        ("emails", "plain", "Emails.plain"),
        ("emails", "welcome", "Emails.welcome"),
    ]
    assert schedules(app) == [("Tidy.hourly", "Tidy.hourly"), ("named", "Tidy.nightly")]
    assert composed(app).registry.concurrency == {"emails": 20, "elsewhere": None, "worker-default": None}


def test_a_single_file_is_enough() -> None:
    app = App("x")

    @app.handler()
    async def work(job: Job[int]) -> None: ...

    @app.schedule(every="1h")
    async def tick() -> None: ...

    assert places(app) == [("worker-default", "work", "work")]
    assert schedules(app) == [("tick", "tick")]
    assert work.job.name == "work"


def test_nothing_declared_is_an_application_too() -> None:
    app = App("x")
    assert (places(app), schedules(app)) == ([], [])


# Inheritance


class Base:
    @handler()
    async def kept(self, job: Job[int]) -> None: ...

    @handler(attempts=7)
    @locked("base")
    async def overridden(self, job: Job[int]) -> None: ...

    @handler()
    async def renamed(self, job: Job[int]) -> None: ...

    @handler()
    async def dropped(self, job: Job[int]) -> None: ...

    @schedule(every="1h")
    async def tick(self) -> None: ...


@queue("a", concurrency=3)
class A(Base):
    async def overridden(self, job: Job[int]) -> None: ...  # type: ignore[override]

    @handler("new-name")
    async def renamed(self, job: Job[int]) -> None: ...

    dropped = None  # type: ignore[assignment]


@queue("b")
class B(Base): ...


class Child(A): ...


class NoQueue(Base):
    async def overridden(self, job: Job[int]) -> None: ...  # type: ignore[override]


def test_inherited_methods_are_found_and_overrides_keep_declaration_and_guards() -> None:
    app = App("x", jobs=[A])
    assert sorted(places(app)) == [
        ("a", "kept", "A.kept"), ("a", "new-name", "A.renamed"), ("a", "overridden", "A.overridden")
    ]  # fmt: skip
    assert schedules(app) == [("A.tick", "A.tick")]
    (entry,) = [e for e in composed(app).registry.handlers if e.name == "overridden"]
    assert entry.options == {"attempts": 7}
    assert entry.code.fn is A.__dict__["overridden"]
    assert [guard.kind for guard in guards_of(entry.code.fn)] == ["locked"]


def test_an_override_keeps_its_lock_without_any_decorator_on_its_class() -> None:
    (entry,) = [e for e in composed(App("x", jobs=[NoQueue])).registry.handlers if e.name == "overridden"]
    assert entry.code.fn is NoQueue.__dict__["overridden"]
    assert [guard.kind for guard in guards_of(entry.code.fn)] == ["locked"]


def test_two_classes_inherit_for_their_own_queues_and_their_jobs_know_it() -> None:
    app = App("x", jobs=[A, B])
    assert {(queue, label) for queue, name, label in places(app) if name == "kept"} == {
        ("a", "A.kept"),
        ("b", "B.kept"),
    }
    assert (A.kept.job.queue, B.kept.job.queue) == ("a", "b")


def test_a_queue_is_inherited_with_its_concurrency() -> None:
    app = App("x", jobs=[Child])
    assert {queue for queue, _, _ in places(app)} == {"a"}
    assert composed(app).registry.concurrency["a"] == 3


# Packages


def test_packages_from_the_settings_are_searched(project: Path) -> None:
    write(
        project,
        {
            "found/__init__": "",
            "found/mail": """
from workfleet import Job, handler, process, public, queue, schedule
from abc import ABC, abstractmethod
from json import JSONDecoder

class Abstract(ABC):
    @handler()
    async def inherited(self, job: Job[int]) -> None: ...
    @abstractmethod
    def needed(self): ...

@queue("emails")
class Emails(Abstract):
    def needed(self): ...

@process("images")
class Images:
    @public
    def resize(self) -> int: ...

class NoJob: ...
""",
            "found/deep/__init__": "",
            "found/deep/tasks": """
from workfleet import Job, handler, schedule
from found.mail import Emails  # imported, not declared here

@handler()
async def work(job: Job[int]) -> None: ...

@schedule(every="1h")
def tick() -> None: ...
""",
            "found/__main__": "raise SystemExit('never imported')",
        },
    )
    from importlib import import_module

    app = App("x", modules=[Module("mail", jobs=[import_module("found.mail").Emails])])
    registry = composed(app, packages=["found"]).registry
    mine = [entry for entry in registry.handlers if not entry.name.startswith("worker.")]
    # The class that a module lists too is found once.
    assert sorted((e.queue, e.name) for e in mine) == [("emails", "inherited"), ("worker-default", "work")]
    assert [mark.name for _, mark in registry.processes] == ["images"]
    assert "tick" in [entry.name for entry in registry.schedules]


def test_every_module_that_cannot_be_imported_is_told_with_the_rest(project: Path) -> None:
    write(
        project,
        {
            "bad/__init__": "",
            "bad/syntax": "def broken(:",
            "bad/raises": "raise RuntimeError('at import')",
            "bad/exits": "raise SystemExit('at import')",
            "bad/missing": "import no_such_thing",
            "bad/guarded": """
from workfleet import locked
@locked("a")
def naked(): ...
class Holder:
    @locked("b")
    def method(self): ...
""",
        },
    )
    with pytest.raises(ConfigError) as caught:
        composed(App("x"), packages=["bad", "nowhere"])
    said = sorted(problem.message for problem in caught.value.problems)
    assert [text.split(":")[0] for text in said[:6]] == [
        "Holder.method has a guard (locked) but no @handler, @schedule or @public above it",
        "naked has a guard (locked) but no @handler, @schedule or @public above it",
        "the module 'bad.exits' cannot be imported",
        "the module 'bad.missing' cannot be imported",
        "the module 'bad.raises' cannot be imported",
        "the module 'bad.syntax' cannot be imported",
    ]
    assert said[4] == "the module 'bad.raises' cannot be imported: RuntimeError: at import"
    assert said[6] == "the module 'nowhere' cannot be imported: ModuleNotFoundError: No module named 'nowhere'"
    assert len(said) == 7


# What cannot be right


class Twin:
    @handler("goodbye", queue="emails")
    async def again(self, job: Job[int]) -> None: ...

    @schedule("named", every="1h")
    async def twice(self) -> None: ...


@process("images")
class Images:
    @public
    def resize(self) -> int: ...


@process("images")
class Pictures:
    @public
    def resize(self) -> int: ...


@queue("emails", concurrency=5)
class Slower:
    @handler()
    async def slow(self, job: Job[int]) -> None: ...


@queue("emails")
class Silent:
    @handler()
    async def quiet(self, job: Job[int]) -> None: ...


class Statics:
    @staticmethod
    @schedule(every="1h")
    async def work() -> None: ...


class NoJobs: ...


@locked("a")
async def naked() -> None: ...


def test_duplicates_are_told_with_both_places() -> None:
    here = __name__
    assert problems(App("x", jobs=[Emails, Tidy, Twin, Images, Pictures])) == {
        "handler 'goodbye' on queue 'emails'": (
            f"declared 2 times: {here}.Emails.farewell, {here}.Twin.again. Names are unique"
        ),
        "schedule 'named'": f"declared 2 times: {here}.Tidy.nightly, {here}.Twin.twice. Names are unique",
        "pool 'images'": f"declared 2 times: {here}.Images, {here}.Pictures. Names are unique",
    }


def test_one_name_on_two_queues_is_no_duplicate() -> None:
    @handler("goodbye", queue="other")
    async def elsewhere(job: Job[int]) -> None: ...

    assert ("other", "goodbye", "elsewhere") in places(App("x", jobs=[Emails, elsewhere]))


def test_a_contradicting_concurrency_is_told_with_both_places() -> None:
    assert problems(App("x", jobs=[Emails, Silent, Slower])) == {
        "queue 'emails'": (f"{__name__}.Emails says concurrency=20, {__name__}.Slower says 5: say it once")
    }
    assert composed(App("x", jobs=[Silent, Emails])).registry.concurrency["emails"] == 20


@pytest.mark.parametrize(
    ("job", "name", "said"),
    [
        (
            NoJobs,
            f"{__name__}.NoJobs",
            "module 'x' lists it under jobs, but it has no method with @handler or @schedule",
        ),
        (Emails(), f"{__name__}.Emails", "list classes and functions, not objects"),
        (len, "builtins.builtin_function_or_method", "list classes and functions, not objects"),
        (problems, "tests.app.working.problems", "it has no @handler or @schedule"),
        (Statics, f"{__name__}.Statics.work", "it is a staticmethod: only plain methods can be"),
        (naked, f"{__name__}.naked", "naked has a guard (locked) but no @handler, @schedule or @public above it"),
    ],
)
def test_what_is_no_job(job: Any, name: str, said: str) -> None:
    ((found, message),) = problems(App("x", jobs=[job])).items()
    assert found == name
    assert said in message


def test_all_of_it_is_told_at_once() -> None:
    assert len(problems(App("x", jobs=[Emails, Tidy, Twin, Slower, NoJobs, naked]))) == 5


def test_the_application_may_have_its_own_of_the_built_in_jobs() -> None:
    @handler("worker.heartbeat", queue="worker-default")
    async def mine(job: Job[dict[str, str]]) -> None: ...

    registry = composed(App("x", jobs=[mine])).registry
    assert [e.code.fn for e in registry.handlers if e.name == "worker.heartbeat"] == [mine]


def test_modules_import_each_other_or_share_a_name() -> None:
    a = Module("a")
    b = Module("b", imports=[a])
    a.imports = (b,)
    assert problems(App("x", modules=[a])) == {"modules": "modules import each other: a -> b -> a"}
    assert problems(App("x", modules=[Module("m"), Module("m")])) == {
        "modules": "two modules are named 'm': an app is a module too"
    }
    assert list(problems(App("x", modules=[Module("x")]))) == ["modules"]
    shared = Module("shared")
    order = composed(App("x", modules=[Module("m", imports=[shared]), Module("n", imports=[shared])])).modules
    assert [module.name for module in order] == ["shared", "m", "n", "x"]
