"""`workfleet doctor`: whether the store and the fleet are what they should be, and what to do where they are not."""

from __future__ import annotations

import click

from ..app.client import Client
from ..app.status import default_status_file, read_status
from ..errors import StoreUnavailable
from ..ports.exam import Finding, Level
from ..schedules.overdue import overdue_ms
from ..settings.store import shown_store
from .health import health_findings
from .options import Where, app_argument, json_option
from .output import count, plain, rough, write, write_json
from .project import Target, target_of, with_client
from .queues import all_queues
from .status import who_is_blocked, why_not_ready, why_not_running
from .worker_state import lives_of

_LATE_MS = 15_000
"""A fire waits for a poll at most."""
_SHOWN = 5
_SIGNS = {"ok": "ok     ", "warning": "warning", "problem": "PROBLEM"}


@click.command("doctor")
@json_option
@app_argument
def doctor(*, where: Where, as_json: bool) -> int:
    """Look at the store and the fleet: can it be written to, what would a crash or a failover lose, do clocks agree,
    does anybody listen to every queue, is a schedule overdue, who else works on them; and what is ill in the fleet
    of this machine.

    Exits 1 when something is wrong, 3 when the store cannot be used; warnings do not fail it.

    \b
    Examples:
      workfleet doctor app.py
      workfleet doctor --json | jq 'select(.level != "ok")'
    """
    target = target_of(where)
    findings = [Finding("settings", "warning", warning) for warning in target.loaded.warnings]
    findings += _health(target)
    code = 0
    try:
        with_client(target, lambda client: _look(client, target, findings))
    except StoreUnavailable as error:
        findings.append(Finding("store", "problem", f"{error.store}: {error.reason}", error.advice))
        code = StoreUnavailable.exit_code
    for finding in findings:
        if as_json:
            document = {"check": finding.check, "level": finding.level, "said": finding.said, "advice": finding.advice}
            write_json(document)
        else:
            _write(finding)
    return code or int(any(finding.level == "problem" for finding in findings))


async def _look(client: Client, target: Target, findings: list[Finding]) -> None:
    """Add what there is to say. What was found before the store fails is found."""
    store = await client.session.store()
    findings.append(Finding("store", "ok", f"{shown_store(store.url)} answers"))
    findings += await store.exam.findings()
    findings += await _fleet(client, target)
    findings += await _schedules(client)


async def _fleet(client: Client, target: Target) -> list[Finding]:
    """Whether workers live, and listen to every queue that has something to do."""
    store = await client.session.store()
    now = await store.now_ms()
    lives = lives_of(await store.fleet.workers(), now)
    strangers = await store.exam.strangers()
    silent = [str(life) for life in lives if not life.works]
    working = [life for life in lives if life.works]
    many = count(len(working), "works", "work") if working else "none works"
    found = [Finding("workers", "ok" if working else "warning", many)]
    if silent:
        advice = "The jobs of dead workers run again by themselves; their records go after a day"
        found.append(Finding("workers", "warning", f"nothing is heard of {', '.join(silent)}", advice))
    listened = {queue for life in working for queue in life.record.queues} | strangers.keys()
    for info in await all_queues(client, target):
        ready = info.counts.waiting + info.counts.prioritized
        if ready and info.name not in listened:
            said = f"{count(ready, 'job waits', 'jobs wait')} on queue {info.name!r}, to which nobody listens"
            found.append(Finding("queues", "warning", said, "Start a worker that does"))
    return found


async def _schedules(client: Client) -> list[Finding]:
    """Schedules that should have fired and have not."""
    store = await client.session.store()
    records, now = await store.schedules.all(), await store.now_ms()
    late = {record.name: late_ms for record in records if (late_ms := overdue_ms(record, now)) > _LATE_MS}
    if not late:
        return []
    worst = sorted(late, key=lambda name: -late[name])[:_SHOWN]
    more = f" and {len(late) - _SHOWN} more" if len(late) > _SHOWN else ""
    said = ", ".join(f"{name} by {rough(late[name])}" for name in worst)
    advice = "Is a worker running whose WORKER_SCHEDULER_ENABLED is not off?"
    return [Finding("schedules", "warning", f"overdue: {said}{more}", advice)]


def _health(target: Target) -> list[Finding]:
    """What the workers of this machine say of themselves, where a fleet runs here."""
    core, project = target.loaded.core, target.loaded.project
    fleet = read_status(core.status_file or default_status_file(project, target.app))
    if fleet is None:
        return []
    why_not = why_not_running(fleet)
    if why_not is not None:
        # One that has stopped may have done so because it should; one that says nothing has not.
        level: Level = "warning" if fleet.state == "stopped" else "problem"
        return [Finding("fleet", level, f"it does not run on this machine: {why_not}")]
    ill = why_not_ready(fleet)
    if not ill:
        silent = [Finding("health", "warning", f"worker {at}: {said}") for at, said in who_is_blocked(fleet).items()]
        return [Finding("fleet", "ok", "it is ready"), *silent, *health_findings(fleet)]
    # Who starts or stops is not ready either, and nothing is wrong with that.
    level = "problem" if fleet.state == "ready" else "warning"
    return [Finding("fleet", level, f"it is not ready: {ill}"), *health_findings(fleet)]


def _write(finding: Finding) -> None:
    write(f"{_SIGNS[finding.level]}  {plain(finding.check)}: {plain(finding.said)}")
    for line in finding.advice.splitlines():
        write(f"         {plain(line)}")
