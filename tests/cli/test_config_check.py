"""`config check`: what it says of an application is what `run` would say, and nothing of the application runs."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from .conftest import Project

ROOT = Path(__file__).parents[2]
BROKEN = """
from workfleet import App, Job, Module, handler, idempotent, process, public, retry


class Depot:
    def __init__(self) -> None:
        raise SystemExit("a constructor was called")


class Work:
    def __init__(self, depot: Depot) -> None: ...

    @handler("again")
    @retry(attempts=3)
    async def again(self, job: Job[int]) -> None: ...

    @handler("keyed", pool="gpu")
    @idempotent("{other}", ttl="1h")
    async def keyed(self, job: Job[int], what: complex) -> None: ...

    @handler("slow", timeout="3s")
    def slow(self, job: Job[int]) -> None: ...


@process("images", memory="lots", strategy="random", size=0, colour="red")
class Images:
    @public
    def resize(self) -> None: ...


@process("here", isolation="thread", memory="1GB")
class Here:
    @public
    def work(self) -> None: ...


app = App("broken", jobs=[Work, Images, Here])


@app.on_init
async def init() -> None:
    raise SystemExit("a hook was called")
"""
SAID = [
    "injection: Work -> Depot: nothing provides Depot",
    "pool images: memory = 'lots': ",
    "pool images: strategy = 'random': ",
    "pool images: size = 0: ",
    "pool images: colour = 'red': there is no such option",
    'pool here: memory: isolation="thread" cannot hold to it',
    "app.Work.again: @retry is for methods of a pool",
    "app.Work.keyed(what): nothing provides complex",
    "app.Work.keyed: ",
    "app.Work.keyed: pool='gpu': there is no such pool. Pools: cpu, here, images",
    "app.Work.slow: ",
]


def test_every_mistake_is_told_at_once_by_the_check_and_by_run(bare: Project) -> None:
    bare.write("app.py", BROKEN)
    code, out, err = bare("config", "check", "app.py")
    assert (code, out) == (78, "")
    head, *lines = err.splitlines()
    assert head == f"Error: {len(SAID)} problems in the configuration:"
    for said, line in zip(SAID, lines, strict=True):
        assert line.startswith(f"  - {said}")
    assert list(bare.folder.rglob("*.db")) == []
    ran = bare("run", "app.py", "--until-idle")
    assert ran.code == 78
    assert all(line in ran.err for line in lines)


def test_what_cannot_even_be_read_is_told_with_its_place(bare: Project) -> None:
    bare.write(
        "app.py",
        "from __future__ import annotations\nfrom workfleet import App, LockModule\n"
        "def locks(depot: Nowhere) -> dict[str, str]:\n    return {}\n"
        "app = App('odd', modules=[LockModule(factory=locks)])\n",
    )
    code, out, err = bare("config", "check", "app.py")
    assert (code, out) == (78, "")
    assert "the application cannot start" in err
    assert "name 'Nowhere' is not defined" in err
    assert bare("run", "app.py", "--until-idle").code == 78


def test_show_needs_an_application_that_can_be_read_and_no_more(bare: Project) -> None:
    bare.write("app.py", BROKEN)
    assert bare("config", "show", "app.py").code == 0


def test_what_needs_no_run_is_right_without_one(bare: Project) -> None:
    """Nothing of the application is called: all of it would end the process."""
    bare.write(
        "app.py",
        "import dishka\nfrom workfleet import App, Job, Module, Pool, handler, process, public\n"
        "def end() -> None:\n    raise SystemExit('it was called')\n"
        "class Depot: ...\n"
        "class Own(dishka.Provider):\n    @dishka.provide(scope=dishka.Scope.APP)\n"
        "    def depot(self) -> Depot:\n        end()\n"
        "@process('images', isolation='thread')\nclass Images:\n    def __init__(self, depot: Depot) -> None:\n"
        "        end()\n    @public\n    def resize(self) -> None: ...\n"
        "class Work:\n    def __init__(self, depot: Depot, images: Pool[Images]) -> None:\n        end()\n"
        "    @handler('f', pool='cpu')\n    async def f(self, job: Job[int]) -> None: ...\n"
        "app = App('right', modules=[Module('own', providers=[Own()])], jobs=[Work, Images])\n"
        "for add in (app.on_init, app.on_bootstrap, app.on_drain, app.on_shutdown):\n    add(end)\n",
    )
    code, out, err = bare("config", "check", "app.py")
    assert (code, err) == (0, "")
    assert out.startswith("settings: all right")
    assert list(bare.folder.rglob("*.db")) == []


def test_the_example_is_right(bare: Project) -> None:
    shutil.copytree(ROOT / "examples" / "media", bare.folder / "media")
    ran = bare.process("config", "check", "media/app.py")
    assert (ran.code, ran.err) == (0, "")


def blocks() -> list[tuple[str, str]]:
    """The documents' modules that make an application by themselves."""
    found: list[tuple[str, str]] = []
    for path in sorted((ROOT / "docs").glob("*.md")):
        each = re.findall(r"^```python\n(.*?)^```$", path.read_text("utf-8"), flags=re.DOTALL | re.MULTILINE)
        found += [(f"{path.stem}: {block.partition(chr(10))[0]}", block) for block in each if _is_application(block)]
    return found


def _is_application(block: str) -> bool:
    return not block.startswith("# fragment") and re.search(r"^app = App\(", block, flags=re.MULTILINE) is not None


@pytest.mark.parametrize("block", [block for _, block in blocks()], ids=[name for name, _ in blocks()])
def test_the_documents_applications_are_right(block: str, bare: Project) -> None:
    bare.write("app.py", block)
    ran = bare("config", "check", "app.py")
    assert (ran.code, ran.err) == (0, "")
