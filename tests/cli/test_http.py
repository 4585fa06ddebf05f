"""`WORKER_HTTP_PORT`: a fleet that is asked by HTTP."""

from __future__ import annotations

import os
import signal
import socket
from http.client import HTTPConnection
from pathlib import Path

import psutil
from prometheus_client.parser import text_string_to_metric_families

from .conftest import make_project, wait_for
from .running import running


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def ask(port: int, path: str) -> tuple[int, str]:
    connection = HTTPConnection("127.0.0.1", port, timeout=20)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    except ConnectionRefusedError:
        return 0, ""
    finally:
        connection.close()


def test_a_running_fleet_answers_probes_and_shows_its_metrics(tmp_path: Path) -> None:
    project, port = make_project(tmp_path), free_port()
    settings = {"WORKER_HTTP_PORT": str(port), "WORKER_HTTP_HOST": "127.0.0.1"}
    with running(project, "run", **settings, WORKER_METRICS__COLLECTION__INTERVAL="1s") as run:
        wait_for(lambda: ask(port, "/readyz") == (200, "ready: ok\n"), "a ready fleet")
        listening = psutil.Process(run.process.pid).net_connections()
        assert [each.laddr.ip for each in listening if each.laddr and each.laddr.port == port and not each.raddr] == [
            "127.0.0.1"
        ]
        assert ask(port, "/livez") == (200, "live: ok\n")
        assert ask(port, "/startupz") == (200, "startup: ok\n")

        assert project("enqueue", "greetings", "greet", '{"name": "ada"}').code == 0

        def names() -> set[str]:
            return {family.name for family in text_string_to_metric_families(ask(port, "/metrics")[1])}

        wait_for(lambda: names() > {"workfleet_jobs", "workfleet_job_duration_seconds"}, "metrics of jobs")
        os.kill(run.process.pid, signal.SIGTERM)
        assert run.end()[0] == 0
    assert ask(port, "/livez") == (0, "")
