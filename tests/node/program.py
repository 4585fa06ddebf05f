"""What the tests run by `workfleet run` on queues that Node has too. Its job names are those of driver.js."""

from __future__ import annotations

import asyncio

from workfleet import App, Fail, Job, Module, handler, queue


@queue("q", concurrency=4)
class Shared:
    @handler("ok")
    async def ok(self, job: Job[object]) -> object:
        return job.data

    @handler("fail")
    async def fail(self, job: Job[dict[str, str]]) -> None:
        raise ValueError(job.data["message"])

    @handler("flaky")
    async def flaky(self, job: Job[dict[str, int]]) -> int:
        if job.attempt <= job.data["times"]:
            raise ValueError(f"attempt {job.attempt}")
        return job.attempt

    @handler("fatal")
    async def fatal(self, job: Job[dict[str, str]]) -> None:
        raise Fail(job.data["message"])

    @handler("slow")
    async def slow(self, job: Job[dict[str, int]]) -> str:
        await asyncio.sleep(job.data["ms"] / 1000)
        return "slept"


app = App("shop", modules=[Module("shared", jobs=[Shared])])
