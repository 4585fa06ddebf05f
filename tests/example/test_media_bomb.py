"""The whole example, run as a user runs it, with a small file among the photos that unfolds to gigabytes."""

from __future__ import annotations

import re
from pathlib import Path

import fill
from photo_settings import HERE
from PIL import Image

from tests.cli.conftest import Project

APP = str(HERE / "app.py")
COLOURS = ("red", "green", "blue", "white", "black", "orange", "purple", "brown")
REASON = re.compile(r"images\.inspect used (\d+) MB, the limit is 512 MB: its process was killed")


def test_a_photo_bomb_fails_alone_with_its_reason_and_is_not_tried_again(tmp_path: Path) -> None:
    inbox, data = tmp_path / "inbox", tmp_path / "data"
    where = {"WORKER_PHOTOS__INBOX": str(inbox), "WORKER_PHOTOS__DATA": str(data)}
    workfleet = Project(tmp_path, {"WORKER_STORE": f"sqlite:///{tmp_path / 'jobs.db'}", **where})
    inbox.mkdir()
    for number, colour in enumerate(COLOURS):
        Image.new("RGB", (300 + number, 200), colour).save(inbox / f"{colour}.jpg")
    (inbox / "bomb.png").write_bytes(fill.photo_bomb())

    ran = workfleet("run", APP, "--until-idle")
    assert ran.code == 0, ran.err
    summary, bomb, *_ = ran.out.splitlines()
    assert summary == "Photos: 9 found (9 new), 8 done, 1 failed, 0 waiting"
    assert REASON.fullmatch(bomb.removeprefix("  bomb.png: "))
    assert len(list((data / "thumbs").glob("*.jpg"))) == 3 * len(COLOURS)

    (failed,) = workfleet("jobs", "ls", "--app", APP, "--state", "failed", "--json").documents
    used = REASON.fullmatch(failed["failure"]["message"])
    assert used is not None
    assert 512 <= int(used[1]) < 4_000  # rounded
    (shown,) = workfleet("jobs", "show", "--app", APP, failed["id"], "--json").documents
    assert [attempt["failure"]["code"] for attempt in shown["history"]] == ["memory_limit"], "it was tried again"
