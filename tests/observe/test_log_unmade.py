"""Lines that cannot be made, or not as they were meant: no log call fails the code that makes it."""

from __future__ import annotations

import logging
from collections.abc import Mapping

import pytest
import structlog
from _pytest.capture import CaptureFixture

from workfleet.observe.logs.options import LogFormat, OwnDestination
from workfleet.observe.logs.rendering import LogLine

from .logging_of import documents, logging_of, messages
from .unreadable import Gone, Mute, Odd

SHOP = logging.getLogger("shop")


@pytest.mark.parametrize("form", ["json", "console"])
def test_no_value_fails_the_code_that_logs_it(form: LogFormat) -> None:
    rich = structlog.get_logger("shop")
    with logging_of(format=form) as stderr:
        SHOP.info("one", extra={"row": Gone(), "n": 1})
        SHOP.info("two", extra={"facts": {Mute(): 1}})
        SHOP.info("three", extra={1: 2, Mute(): 3})  # type: ignore[dict-item]
        rich.info("four", row=Gone(), facts={Mute(): 1})
        rich.info(Mute(), n=1)
        rich.info("%d of %d", 5)
        rich.info("%s", Mute())
    text = stderr.getvalue()
    assert len(text.splitlines()) == 7
    if form == "json":
        lines = [
            {name: line[name] for name in line if name not in {"time", "level", "logger"}} for line in documents(text)
        ]
        said = "no such line can be made"
        assert lines == [
            {"message": "one", "row": "<Gone: KeyError in reading it>", "n": 1},
            {"message": "two", "facts": {"<Mute: RuntimeError in __str__>": 1}},
            {"message": "three", "1": 2, "<Mute: RuntimeError in __str__>": 3},
            {
                "message": "four",
                "row": "<Gone: KeyError in reading it>",
                "facts": {"<Mute: RuntimeError in __str__>": 1},
            },
            {"message": f"<Mute: RuntimeError in __repr__> with () ({said}: RuntimeError)", "n": 1},
            {"message": f"'%d of %d' with (5,) ({said}: TypeError)"},
            {"message": f"'%s' with <tuple: RuntimeError in __repr__> ({said}: RuntimeError)"},
        ]


def test_a_line_whose_context_fails_is_told_with_what_there_is_of_it() -> None:
    def context() -> Mapping[str, object]:
        raise LookupError("password=hunter2")

    taken: list[LogLine] = []
    own = OwnDestination(name="own", send=taken.append)
    with logging_of([own], context=context) as stderr:
        SHOP.warning("login of %s with password='%s'", "ann", "hunter2", extra={"a": 1})
    (line,) = documents(stderr.getvalue())
    assert line.pop("time").endswith("Z")
    assert line == {
        "level": "warning",
        "logger": "shop",
        "message": "login of ann with password='***' (no more of this line can be made: LookupError)",
    }
    assert [each.message for each in taken] == [line["message"]]


def test_what_cannot_be_redacted_is_not_told() -> None:
    with logging_of() as stderr:
        SHOP.info(Odd("password=hunter2"), extra={"odd": Odd("token=hunter2"), "n": 1})
        SHOP.info("plain", extra={"odd": Odd("token=hunter2"), "n": 1})
    assert "hunter2" not in stderr.getvalue()
    first, second = documents(stderr.getvalue())
    assert (first["message"], first["logger"]) == ("(no such line can be made: RuntimeError)", "shop")
    assert (second["odd"], second["n"]) == ("<Odd: RuntimeError in reading it>", 1)


@pytest.mark.parametrize("name", ["workfleet", "workfleet_event", "workfleet_said", "workfleet_line"])
@pytest.mark.parametrize("value", ["shop", 5, None, ["a"]])
@pytest.mark.parametrize("form", ["json", "console"])
def test_extras_of_the_users_that_are_named_as_ours_are_his(name: str, value: object, form: LogFormat) -> None:
    with logging_of(format=form) as stderr:
        SHOP.info("said", extra={name: value, "n": 1})
    if form == "json":
        (line,) = documents(stderr.getvalue())
        line = {key: line[key] for key in line if key not in {"time", "level", "logger", "message"}}
        assert line == {"n": 1, **({} if value is None else {name: value})}
    else:
        assert " said " in stderr.getvalue()
        assert "n=1" in stderr.getvalue()


def test_a_record_of_somebody_elses_making_fails_nobody(capfd: CaptureFixture[str]) -> None:
    with logging_of() as stderr:
        SHOP.handle(logging.makeLogRecord({"msg": "no name", "levelno": 30, "name": None}))
        SHOP.handle(logging.makeLogRecord({"msg": "no time", "levelno": 30, "created": 1e30}))
    assert messages(stderr.getvalue()) == ["no name"]
    last = "a line of logger root cannot be given out: OverflowError"
    assert last in capfd.readouterr().err


def test_a_value_that_logs_itself_ends() -> None:
    class Vain:
        def __str__(self) -> str:
            SHOP.info("I am %s", self)
            return "vain"

        __repr__ = __str__

    with logging_of() as stderr:
        SHOP.info("met %s", Vain())
    assert messages(stderr.getvalue())[-1] == "met vain"
