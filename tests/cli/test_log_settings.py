"""Settings of logs that cannot be: told by name, by `config check` and by `run`, before anything starts."""

from __future__ import annotations

import pytest

from .conftest import Project

APP = """
from workfleet import App, LoggerModule

app = App("shop", modules=[LoggerModule({module})])


@app.log_destination("{own}")
def mine(line) -> None: ...
"""


@pytest.fixture
def shop(bare: Project) -> Project:
    bare.write("app.py", APP.format(module="", own="mine"))
    return bare


@pytest.mark.parametrize(
    ("environ", "said"),
    [
        (
            {"WORKER_LOG__DESTINATIONS__AUDIT__TO": "missing/a.log"},
            "WORKER_LOG__DESTINATIONS__AUDIT__TO = missing/a.log (from environment): cannot be written to: there is no",
        ),
        (
            {"WORKER_LOG__DESTINATIONS__AUDIT__TO": "../"},
            "WORKER_LOG__DESTINATIONS__AUDIT__TO = ../ (from environment): cannot be written to: it is a folder",
        ),
        (
            {"WORKER_LOG__DESTINATIONS__AUDIT__TO": "stdrr"},
            "WORKER_LOG__DESTINATIONS__AUDIT__TO = stdrr (from environment): 'stdrr' is neither; a file in",
        ),
        (
            {"WORKER_LOG__DESTINATIONS__AUDIT__LEVEL": "info"},
            "WORKER_LOG__DESTINATIONS__AUDIT__TO: is required (stderr, stdout, or the path of a file)",
        ),
        (
            {"WORKER_LOG__DESTINATIONS__AUDIT__TO": "stderr", "WORKER_LOG__DESTINATIONS__AUDIT__LEVLE": "info"},
            "WORKER_LOG__DESTINATIONS__AUDIT__LEVLE = info (from environment): is not a setting; did you mean "
            "WORKER_LOG__DESTINATIONS__AUDIT__LEVEL?",
        ),
        (
            {"WORKER_LOG__DESTINATIONS__AUDIT__TO": "stderr", "WORKER_LOG__DESTINATIONS__AUDIT__FORMAT": "xml"},
            "WORKER_LOG__DESTINATIONS__AUDIT__FORMAT = xml (from environment): must be one of auto, console, json",
        ),
        (
            {"WORKER_LOG__LEVELS__SHOP": "loud"},
            "WORKER_LOG__LEVELS__SHOP = loud (from environment): must be one of debug, info, warning, error, critical",
        ),
        (
            {"WORKER_LOG__JOBS__LEVEL": "loud"},
            "WORKER_LOG__JOBS__LEVEL = loud (from environment): must be",
        ),
    ],
)
def test_what_cannot_be_is_told_by_its_name(environ: dict[str, str], said: str, shop: Project) -> None:
    for command in (("config", "check", "app.py"), ("config", "check"), ("run", "app.py", "--until-idle")):
        code, out, err = shop(*command, **environ)
        assert (code, out) == (78, "")
        assert said in err
    assert sorted(file.name for file in shop.folder.iterdir() if file.suffix != "") == ["app.py"]


def test_a_file_that_the_code_names_is_checked_as_well(bare: Project) -> None:
    module = "destinations={'audit': {'to': 'missing/a.log', 'level': 'warning'}}"
    bare.write("app.py", APP.format(module=module, own="mine"))
    for command in (("config", "check", "app.py"), ("run", "app.py", "--until-idle")):
        code, _, err = bare(*command)
        assert code == 78
        assert "log.destinations.audit.to = missing/a.log (from code): cannot be written to: there is no folder" in err


def test_two_destinations_of_one_name_are_refused(bare: Project) -> None:
    bare.write("app.py", APP.format(module="destinations={'mine': {'to': 'stderr'}}", own="mine"))
    code, _, err = bare("config", "check", "app.py")
    assert code == 78
    assert "log destination mine: there are two of this name: give one another" in err


def test_right_ones_pass_and_nothing_is_made(shop: Project) -> None:
    code, out, err = shop("config", "check", "app.py", WORKER_LOG__DESTINATIONS__AUDIT__TO="audit.jsonl")
    assert (code, err) == (0, "")
    assert out
    assert not (shop.folder / "audit.jsonl").exists()
