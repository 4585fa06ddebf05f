"""How a status document is judged: `live`, `ready`, `startup`. What the rules are, the head of `status.py` says.

Standard library only, and little of it: `workfleet probe` imports this and must start fast.
"""

from __future__ import annotations

VERSION = 1
MAX_AGE_MS = 15_000
MAX_STORE_AGE_MS = 30_000
MAX_BEAT_AGE_MS = 30_000
LATE_BEAT_MS = 5_000
_SHOWN = 5

CHECKS = ("live", "ready", "startup")


def judge(
    check: str, status: dict[str, object], max_age_ms: int, now_mono_ms: int, boot: str = "", gone: str = ""
) -> tuple[int | None, str]:
    """The file's age (None: it is not of this boot of this machine) and why the check fails, "" when it passes.

    `boot` is the own boot's id, "" where it cannot be told: another boot's monotonic clock says nothing here. `gone`
    says that the supervisor has ended, which a document that is seconds old does not know."""
    version = _int(status["version"])
    if version > VERSION:
        return None, f"the status file is of a newer version ({version}): update the probe"
    age_ms = now_mono_ms - _int(status["written_mono_ms"])
    if age_ms < 0 or is_elsewhere(status, boot):
        return (
            None,
            f"the status file is from before this machine was started, or of another one ({status.get('host')})",
        )
    if status["state"] == "stopped" and (check != "startup" or age_ms >= max_age_ms):
        # However old it is: nobody writes another one.
        return age_ms, _line(f"the fleet has stopped: {status.get('reason') or 'no reason given'}")
    if gone and status["state"] != "stopped":
        return age_ms, gone
    if age_ms >= max_age_ms:
        return age_ms, f"the status file is {age_ms / 1000:.1f} s old: the supervisor makes no progress"
    if check == "startup":
        return age_ms, "" if status["ever_ready"] is True else f"the fleet is not ready yet ({status['state']})"
    reason = _not_live(status)
    return age_ms, _line(reason or (_not_ready(status, age_ms) if check == "ready" else ""))


def is_elsewhere(status: dict[str, object], boot: str) -> bool:
    """Whether a document was written on another boot than this one, or on another machine."""
    facts = status.get("supervisor")
    theirs = facts.get("boot_id") if isinstance(facts, dict) else None
    # What follows the stroke is a container's: containers of one machine share its clock.
    return bool(boot) and isinstance(theirs, str) and theirs.partition("/")[0] != boot.partition("/")[0]


def notes(check: str, status: dict[str, object], now_mono_ms: int) -> list[str]:
    """What is ill and yet does not make a fleet fail the check, a sentence for each. Readiness has such, if any."""
    if check != "ready":
        return []
    age_ms = now_mono_ms - _int(status["written_mono_ms"])
    return [_line(f"worker {worker['index']}: {note}") for worker in _workers(status) for note in _ills(worker, age_ms)]


def sentence(reason: str, noted: list[str]) -> str:
    """What a check says in a line: why it fails; or that it passes, and what is ill all the same."""
    if reason:
        return reason
    more = f"; and {len(noted) - _SHOWN} more" if len(noted) > _SHOWN else ""
    return f"ok, but {'; '.join(noted[:_SHOWN])}{more}" if noted else "ok"


def _ills(worker: dict[str, object], age_ms: int) -> list[str]:
    if worker["state"] != "ready":
        return []
    silent_ms = _silent_ms(worker, age_ms)
    if silent_ms >= LATE_BEAT_MS:
        return [_blocked(worker, silent_ms)]
    told = [f"it was told to {worker['instruction']}"] if worker.get("instruction") else []
    return [*told, *health_notes(worker)]


def health_notes(worker: dict[str, object]) -> list[str]:
    """What a worker's health says of what is not healthy."""
    details = worker.get("details")
    health = details.get("health") if isinstance(details, dict) else None
    reports = health.get("indicators") if isinstance(health, dict) else None
    if not isinstance(reports, list):
        return []
    ill = [report for report in reports if isinstance(report, dict) and report.get("status") != "healthy"]
    said = [f"{report.get('name')} {report.get('status')}" for report in ill]
    whys = [f" ({report['reason']})" if report.get("reason") else "" for report in ill]
    return ["".join(each) for each in zip(said, whys, strict=True)]


def _blocked(worker: dict[str, object], age_ms: int) -> str:
    return f"event-loop blocked: nothing is heard of it for {age_ms / 1000:.0f} s{while_running(worker.get('running'))}"


def while_running(running: object) -> str:
    """What a blocked worker runs, as the end of a sentence; "" where that is not known."""
    return f", while it runs {', '.join(map(str, running))}" if isinstance(running, list | tuple) and running else ""


def _not_live(status: dict[str, object]) -> str:
    for worker in _workers(status):
        if worker["state"] == "stuck":
            return f"worker {worker['index']} (process {worker['pid']}) is stuck and could not be replaced"
    return ""


def _not_ready(status: dict[str, object], age_ms: int) -> str:
    if status["state"] != "ready":
        return f"the fleet is {status['state']}"
    workers = _workers(status)
    reasons = [_worker_not_ready(worker, age_ms) for worker in workers]
    if not all(reasons):
        return ""
    told = list[str]()
    for worker, reason in zip(workers, reasons, strict=True):
        error = str(worker.get("store_error") or "")
        # A store's own words are long, and of all workers the same: once is enough.
        repeated = error and any(error in before for before in told)
        told.append(f"worker {worker['index']}: {reason.replace(f': {error}', '') if repeated else reason}")
    return "; ".join(told) or "there is no worker"


def _worker_not_ready(worker: dict[str, object], age_ms: int) -> str:
    if worker["state"] != "ready":
        return str(worker["state"])
    silent_ms = _silent_ms(worker, age_ms)
    # First, because whatever else it said is as old.
    if silent_ms >= MAX_BEAT_AGE_MS:
        return _blocked(worker, silent_ms)
    unready, ok_age = worker.get("unready"), worker.get("store_ok_age_ms")
    if isinstance(unready, list) and unready:
        return ", ".join(map(str, unready))
    if ok_age is not None and _int(ok_age) + age_ms < MAX_STORE_AGE_MS:
        return ""
    if silent_ms >= LATE_BEAT_MS:
        return _blocked(worker, silent_ms)
    since = "yet" if ok_age is None else f"for {(_int(ok_age) + age_ms) / 1000:.0f} s"
    return f"store not reached {since}: {worker.get('store_error') or 'no error told'}"


def _line(text: str) -> str:
    """In one line, whatever the parts that others wrote."""
    return " ".join(text.split())


def _silent_ms(worker: dict[str, object], age_ms: int) -> int:
    """How long nothing was heard of a worker that has said something."""
    beat_age = worker.get("beat_age_ms")
    return 0 if beat_age is None else _int(beat_age) + age_ms


def _workers(status: dict[str, object]) -> list[dict[str, object]]:
    workers = status.get("workers")
    if not isinstance(workers, list) or not all(isinstance(worker, dict) for worker in workers):
        raise ValueError("its workers are no list of objects")
    return workers


def _int(value: object) -> int:
    if not isinstance(value, int):
        raise ValueError(f"{value!r} is no integer")
    return value
