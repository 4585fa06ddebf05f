"""What is said with a number in it reads right for one, too."""

from __future__ import annotations

import os
import re
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

import pytest

import workfleet.events
from workfleet.cli.output import count
from workfleet.events.event import Event
from workfleet.events.process import WorkerStarting

from .conftest import Project


def kinds() -> list[type[Event]]:
    for module in iter_modules(workfleet.events.__path__):
        import_module(f"workfleet.events.{module.name}")
    return Event.__subclasses__()


@pytest.mark.parametrize("kind", kinds(), ids=lambda kind: kind.__name__)
def test_no_event_counts_one_as_many(kind: type[Event]) -> None:
    assert re.findall(r"\{\w+\} (?:jobs|handlers|schedules|slots|children|attempts|workers)\b", kind.text) == []


def test_a_worker_with_one_handler() -> None:
    event = WorkerStarting(app="shop", worker="w", store="memory://", jobs=1, schedules=0)
    assert event.message() == "shop: handlers 1, schedules 0, store memory://"
    assert (count(1, "job"), count(0, "job"), count(2, "job")) == ("1 job", "0 jobs", "2 jobs")


def test_status_does_not_wait_for_a_pipe(project: Project, tmp_path: Path) -> None:
    project.make_store("shop")
    os.mkfifo(tmp_path / "pipe")
    ran = project("status", WORKER_STATUS_FILE=str(tmp_path / "pipe"))
    assert ran.code == 1
    assert "not running: it was not started here" in ran.out
