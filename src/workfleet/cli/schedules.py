"""`workfleet schedules`: the group, `ls` and `next`."""

from __future__ import annotations

import click

from ..app.client import Client
from ..model.jobs import FINISHED, JobRecord
from ..model.schedules import ScheduleRecord
from ..schedules.info import ScheduleInfo
from .documents import schedule_document
from .options import CONTEXT, Where, app_option, json_option
from .output import at, write_listing, write_table
from .project import target_of, with_client
from .schedule_actions import pause, remove, resume, run
from .schedule_add import add
from .schedule_history import history
from .schedule_records import state_of, the_schedules
from .schedule_show import show
from .upcoming import SLOT_TITLES, Slot, upcoming, when

_TITLES = ("NAME", "WHEN", "NEXT", "LAST", "RAN", ">FIRED", "STATE", "DOES")
_PAGE = 1_000


@click.group("schedules", context_settings=CONTEXT)
def schedules() -> None:
    """List and show schedules, preview and trigger them; add, pause, resume and remove them.

    \b
    Examples:
      workfleet schedules ls
      workfleet schedules next -n 20
    """


for command in (show, history, run, add, pause, resume, remove):
    schedules.add_command(command)


@schedules.command("ls")
@json_option
@app_option
def ls(*, where: Where, as_json: bool) -> int:
    """Every schedule of the store: when it is due, when it fired last and what became of that run (RAN, as long as its
    job is kept; more in `schedules show` and `history`), what it does. Instants are in UTC.

    \b
    Examples:
      workfleet schedules ls
      workfleet schedules ls --json | jq 'select(.orphaned)'
    """
    found, records, ran = with_client(target_of(where), lambda client: _list(client, whole=not as_json))
    by_name = {record.name: record for record in records}
    write_listing(
        found,
        document=schedule_document if as_json else None,
        table=lambda: write_table(
            _TITLES, [_row(info, by_name[info.name], ran) for info in found if info.name in by_name]
        ),
        nothing="no schedules",
    )
    return 0


@schedules.command("next")
@click.argument("name", required=False)
@click.option(
    "-n", "wanted", metavar="N", type=click.IntRange(1, 100_000), default=10, show_default=True, help="How many."
)
@json_option
@app_option
def next_(*, where: Where, name: str | None, wanted: int, as_json: bool) -> int:
    """The next fires of all schedules, or of one: in UTC, on the wall clock, and what daylight saving does to them.

    \b
    Examples:
      workfleet schedules next
      workfleet schedules next Cleanup.nightly -n 5
    """
    records, now = with_client(target_of(where), lambda client: _records(client, name))
    slots = upcoming(records, wanted)
    write_listing(
        slots,
        document=Slot.document if as_json else None,
        table=lambda: write_table(SLOT_TITLES, [slot.row(now) for slot in slots]),
        nothing="nothing is due",
    )
    return 0


def _row(info: ScheduleInfo, record: ScheduleRecord, ran: dict[str, str]) -> list[str]:
    does = f"{info.queue_job} on {info.queue}" if info.target == "queue" else info.method or ""
    due = record.next_due_ms if info.next_due is not None and not info.paused else None
    last = [at(record.last_slot_ms), ran.get(record.last_job_id or "", "")]
    return [info.name, when(record), at(due), *last, str(info.fired), state_of(info), does]


async def _list(client: Client, *, whole: bool) -> tuple[list[ScheduleInfo], list[ScheduleRecord], dict[str, str]]:
    """All schedules; only a table needs their records, too, and what became of their last jobs, by id."""
    store = await client.session.store()
    found, ran = await client.schedules.list(), dict[str, str]()
    records = await store.schedules.all() if whole else []
    ids = [record.last_job_id for record in records if record.last_job_id is not None]
    for start in range(0, len(ids), _PAGE):  # of all in one call, not one by one
        jobs = [job for job in await store.jobs.get(ids[start : start + _PAGE]) if job is not None]
        ran |= {job.id: _became(job) for job in jobs}
    return found, records, ran


def _became(job: JobRecord) -> str:
    """How a run has ended, or where it is."""
    return job.outcome or job.state.value if job.state in FINISHED else job.state.value


async def _records(client: Client, name: str | None) -> tuple[list[ScheduleRecord], int]:
    store = await client.session.store()
    found = await store.schedules.all() if name is None else await the_schedules(client, [name])
    return found, await store.now_ms()
