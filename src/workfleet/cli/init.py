"""`workfleet init`: a small project that works, in a new or an existing folder. Nothing that exists is overwritten."""

from __future__ import annotations

import os
import re
import shlex
import tomllib
from pathlib import Path

import click

from ..app.loops import run_loop
from ..clock import SystemClock
from ..errors import UsageError
from ..settings.store import default_store
from ..stores.open import open_store
from .failures import tell
from .options import debug_option
from .output import write

_APP = '''\
"""{name}: a workfleet application. `workfleet run` starts it."""

from dataclasses import dataclass

from workfleet import App, Job, NewJob

app = App("{name}")


@dataclass
class Greeting:
    name: str


@app.handler("greet", queue="greetings", attempts=5, timeout="30s")
async def greet(job: Job[Greeting]) -> str:
    """One job of the queue `greetings`. What it returns is kept with the job; what it raises is tried again."""
    job.log(f"Hello, {{job.data.name}}!")
    return f"greeted {{job.data.name}}"


@app.schedule(every="1m", run_on_start=True)
async def greet_everybody() -> list[NewJob[str]]:
    """Once a minute in the whole fleet, and at each start: the jobs that it returns are put on their queue."""
    return [greet.job(Greeting(name)) for name in ("Ada", "Grace")]
'''

_SETTINGS = """\
# What the application's code leaves open: `workfleet config show` lists every setting and where its value comes from.
app: app.py
"""

_IGNORED = """\
.workfleet/
.env.local
__pycache__/
"""


@click.command("init")
@click.argument("folder", metavar="[DIR]", default=".", type=click.Path(path_type=Path, file_okay=False))
@debug_option
def init(*, folder: Path) -> int:
    """Make a small project in DIR (default: here): one file with a queue and a schedule, and its settings.

    It never overwrites a file: when one of its own exists, it stops and makes nothing.

    \b
    Example:
      workfleet init demo && cd demo && workfleet run --until-idle
    """
    name = _name(folder)
    files = {"app.py": _APP.format(name=name), "workfleet.yaml": _SETTINGS, ".gitignore": _IGNORED}
    if (folder / ".gitignore").exists():
        del files[".gitignore"]
        tell(f"{folder / '.gitignore'} exists and is left alone: .workfleet/ should be in it")
    _check_free(folder, files)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for file, content in files.items():
            # "x": what appears between the check and here is not overwritten either.
            with open(folder / file, "x", encoding="utf-8") as made:
                made.write(content)
    except OSError as error:
        raise UsageError(f"the project cannot be made: {error}") from error
    run_loop(lambda: _make_store(folder.absolute(), name))
    _write_next_steps(folder, list(files))
    return 0


def _check_free(folder: Path, files: dict[str, str]) -> None:
    taken = [file for file in (*files, "workfleet.yml") if (folder / file).exists()]
    if taken:
        raise UsageError(f"{folder} has {' and '.join(taken)} already; init overwrites nothing: take another folder")
    pyproject = folder / "pyproject.toml"
    try:
        named = pyproject.is_file() and "workfleet" in tomllib.loads(pyproject.read_text("utf-8")).get("tool", {})
    except (OSError, ValueError) as error:
        raise UsageError(f"{pyproject} cannot be read: {error}") from None
    if named:
        raise UsageError(f"{pyproject} has [tool.workfleet] already: this is a workfleet project")


def _name(folder: Path) -> str:
    """An application's name from a folder's."""
    name = re.sub(r"[^a-z0-9]+", "-", folder.absolute().name.lower()).strip("-")
    return name if name[:1].isalpha() else f"app-{name}".rstrip("-")


async def _make_store(folder: Path, name: str) -> None:
    """The store where `run` will look for it, so that a job can be enqueued before the first run."""
    store = await open_store(default_store(folder, name), app=name, clock=SystemClock(), create=True)
    await store.close()


def _write_next_steps(folder: Path, files: list[str]) -> None:
    write(f"Made {', '.join(str(folder / file) for file in files)}")
    write()
    write("What to do next:")
    if folder.absolute() != Path.cwd():
        write(f"  cd {shlex.quote(os.fspath(folder))}")
    steps = {
        "workfleet run --until-idle": "do what is due, say what was done, and end",
        "workfleet run": "stay, and fire the schedule every minute; Ctrl-C ends it",
        "workfleet dev": "the same, and start again when app.py changes",
        'workfleet enqueue greetings greet \'{"name": "you"}\'': "put a job on the queue",
        "workfleet status": "what the fleet does",
        "workfleet jobs ls": "what became of the jobs",
    }
    width = max(map(len, steps))
    for command, text in steps.items():
        write(f"  {command.ljust(width)}  # {text}")
