"""A queue of jobs that make other jobs, for the tests of whole workers."""

from workfleet import (
    Job,
    JobType,
    NewJob,
    handler,
    queue,
)

PING = JobType("ping", int, int, queue="pings")


@queue("pings", concurrency=2)
class Pings:
    @handler(PING)
    async def ping(self, job: Job[int]) -> int:
        return job.data + 1

    @handler()
    async def fan_out(self, job: Job[int]) -> list[NewJob[int]]:
        return [PING(number) for number in range(job.data)]

    @handler()
    async def one_more(self, job: Job[int]) -> NewJob[int]:
        return PING(job.data, id="chosen")

    @handler()
    async def bad_follow_up(self, job: Job[int]) -> NewJob[int]:
        return PING("no number")  # type: ignore[arg-type]

    @handler()
    async def mixed(self, job: Job[int]) -> list[object]:
        return [PING(1), 2]
