"""`config show|check`."""

from __future__ import annotations

from .conftest import Project

SECTION = """
from pydantic import BaseModel, SecretStr
from workfleet import App, Module


class Mail(BaseModel):
    host: str = "localhost"
    password: SecretStr = SecretStr("x")


mail = Module("mail", settings=Mail)
app = App("shop", modules=[mail])
"""


def test_show_lists_settings_with_their_origins_and_masks_secrets(bare: Project) -> None:
    bare.write("app.py", SECTION)
    bare.write("workfleet.yaml", "app: app.py\nmail:\n  host: smtp\n")
    bare.write(".env", "WORKER_LEASE=10s\n")
    ran = bare("config", "show", "--given", WORKER_MAIL__PASSWORD="hunter2")
    assert ran.code == 0
    assert "hunter2" not in ran.out
    rows = {line.split()[0]: line.split() for line in ran.out.splitlines()}
    assert rows["WORKER_LEASE"][1:3] == ["10s", ".env:1"]
    assert rows["WORKER_MAIL__HOST"][1:3] == ["smtp", "workfleet.yaml:3"]
    assert "WORKER_CONCURRENCY" not in rows
    assert "WORKER_CONCURRENCY" in bare("config", "show").out


def test_show_as_json_is_a_document_a_setting(project: Project) -> None:
    documents = project("config", "show", "--json", WORKER_CONCURRENCY="7").documents
    by_name = {document["name"]: document for document in documents}
    assert by_name["WORKER_CONCURRENCY"]["value"] == 7
    assert by_name["WORKER_CONCURRENCY"]["origin"] == "environment"
    assert by_name["WORKER_LEASE"]["origin"] == "default"


def test_without_an_application_the_workers_own_settings_are_shown_and_checked(bare: Project) -> None:
    for verb in ("show", "check"):
        ran = bare("config", verb)
        assert ran.code == 0
        assert "no application is named" in ran.err


def test_check_says_that_all_is_right(project: Project) -> None:
    code, out, err = project("config", "check", WORKER_LEASE="10s")
    assert (code, err) == (0, "")
    assert out == "settings: all right, 3 given, the others have their defaults\n"


def test_ten_wrong_settings_are_told_at_once_by_check_and_by_run(project: Project) -> None:
    wrong = {
        "WORKER_LEASE": "10",
        "WORKER_POLL": "soon",
        "WORKER_CONCURRENCY": "0",
        "WORKER_PROCESSES": "many",
        "WORKER_TIMEZONE": "Mars/Olympus",
        "WORKER_QUEUE_ENABLED": "perhaps",
        "WORKER_MAX_CRASHES": "-1",
        "WORKER_STORE": "postgres://x",
        "WORKER_LOG__LEVEL": "loud",
        "REDIS_PORT": "99999",
    }
    for arguments in (("config", "check"), ("run", "--until-idle")):
        code, out, err = project(*arguments, WORKER_PORT="tcp://10.0.0.1:80", **wrong)
        assert (code, out) == (78, "")
        assert err.startswith("Error: 10 problems in the configuration:\n")
        assert [name for name in wrong if f"  - {name} = " not in err] == []
        assert "WORKER_PORT" not in err


def test_check_finds_what_the_code_declares_wrongly(bare: Project) -> None:
    bare.write(
        "app.py",
        "from workfleet import App, setting\napp = App('a')\n"
        "@app.schedule(cron=setting('timezone'))\nasync def f() -> None: ...\n",
    )
    code, out, err = bare("config", "check", "app.py")
    assert (code, out) == (78, "")
    assert "app.f: schedule 'f': cron expression 'UTC'" in err
