"""RQ's quickest worker. The functions are imported before, as its documentation advises."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import bench.programs.rq_app  # noqa: F401
from bench.programs.marks import REDIS

if __name__ == "__main__":
    rq: Any = import_module("rq")
    connection = import_module("redis").Redis.from_url(REDIS)
    rq.SimpleWorker(["bench"], connection=connection, log_job_description=False).work(logging_level="WARNING")
