"""Overrides of jobs and pools by their names, in files and folded in the environment."""

from __future__ import annotations

import pytest

from tests.settings.conftest import Project
from workfleet.errors import ConfigError
from workfleet.settings import PoolsSettings

_JOBS = ["Cleanup.nightly", "mail-welcome", "worker.heartbeat.scheduler", "größe"]


def test_a_job_is_named_in_the_environment(project: Project) -> None:
    env = {
        "WORKER_JOBS__CLEANUP_NIGHTLY__ENABLED": "false",
        "WORKER_JOBS__MAIL_WELCOME__TIMEOUT": "none",
        "WORKER_JOBS__MAIL_WELCOME__ATTEMPTS": "7",
        "WORKER_JOBS__worker.heartbeat.scheduler__EVERY": "5s",
        "WORKER_JOBS__GRÖSSE__JITTER": "1s",
    }
    loaded = project.read(env).with_names(jobs=_JOBS)
    given = {name: override.given() for name, override in loaded.core.jobs.items()}
    assert {name: {key: str(value) for key, value in one.items()} for name, one in given.items()} == {
        "Cleanup.nightly": {"enabled": "False"},
        "mail-welcome": {"attempts": "7", "timeout": "None"},
        "worker.heartbeat.scheduler": {"every": "5s"},
        "größe": {"jitter": "1s"},
    }


def test_a_job_may_be_one_json_object(project: Project) -> None:
    loaded = project.read({"WORKER_JOBS__CLEANUP_NIGHTLY": '{"cron": "0 4 * * *", "timezone": "UTC"}'})
    override = loaded.with_names(jobs=_JOBS).core.jobs["Cleanup.nightly"]
    assert override.given() == {"cron": "0 4 * * *", "timezone": "UTC"}


def test_the_environment_overrides_the_file_option_by_option(project: Project) -> None:
    project.write("workfleet.yaml", "jobs:\n  Cleanup.nightly: {enabled: false, attempts: 2}\n")
    loaded = project.read({"WORKER_JOBS__CLEANUP_NIGHTLY__ATTEMPTS": "5"})
    assert list(loaded.core.jobs) == ["Cleanup.nightly"]
    assert loaded.core.jobs["Cleanup.nightly"].given() == {"enabled": False, "attempts": 5}
    assert str(loaded.origins["jobs.Cleanup.nightly.attempts"]) == "environment"
    assert str(loaded.origins["jobs.Cleanup.nightly.enabled"]) == "workfleet.yaml:2"


def test_a_name_that_could_mean_two_jobs_is_an_error(project: Project) -> None:
    loaded = project.read({"WORKER_JOBS__A_B__ENABLED": "false"})
    with pytest.raises(ConfigError) as caught:
        loaded.with_names(jobs=["a.b", "a-b", "c"])
    assert [str(one) for one in caught.value.problems] == [
        "WORKER_JOBS__A_B__ENABLED (from environment): could mean a-b and a.b: say it in the settings file"
    ]


def test_two_such_jobs_are_fine_while_no_variable_means_them(project: Project) -> None:
    project.write("workfleet.yaml", "jobs: {a.b: {attempts: 2}, a-b: {attempts: 3}}\n")
    jobs = project.read().with_names(jobs=["a.b", "a-b"]).core.jobs
    assert {name: one.given() for name, one in jobs.items()} == {"a.b": {"attempts": 2}, "a-b": {"attempts": 3}}
    problem = project.problem({"WORKER_JOBS__A_B__ENABLED": "false"})
    assert "could mean a-b and a.b" in problem.message


def test_unknown_jobs_are_errors_in_files_and_near_ones_in_the_environment(project: Project) -> None:
    project.write("workfleet.yaml", "jobs:\n  Cleanup.nighly: {attempts: 2}\n  nobody: {attempts: 2}\n")
    loaded = project.read({"WORKER_JOBS__MAIL_WELCOM__ENABLED": "0", "WORKER_JOBS__GONE__ENABLED": "0"})
    with pytest.raises(ConfigError) as caught:
        loaded.with_names(jobs=_JOBS)
    known = "Cleanup.nightly, größe, mail-welcome, worker.heartbeat.scheduler"
    assert [str(one) for one in caught.value.problems] == [
        "jobs.Cleanup.nighly.attempts (from workfleet.yaml:2): there is no job 'Cleanup.nighly'; "
        "did you mean Cleanup.nightly?",
        f"jobs.nobody.attempts (from workfleet.yaml:3): there is no job 'nobody'; known: {known}",
        "WORKER_JOBS__MAIL_WELCOM__ENABLED (from environment): there is no job 'mail_welcom'; "
        "did you mean mail-welcome?",
    ]


def test_a_job_that_is_gone_is_a_warning_in_the_environment(project: Project) -> None:
    loaded = project.read({"WORKER_JOBS__GONE__ENABLED": "0"}).with_names(jobs=["a"])
    assert loaded.warnings == ("WORKER_JOBS__GONE__ENABLED (environment): there is no job of that name, known: a",)
    assert loaded.core.jobs == {}
    assert loaded.with_names(jobs=["a"]).warnings == loaded.warnings


def test_cron_and_every_contradict_each_other(project: Project) -> None:
    project.write("workfleet.yaml", "jobs: {a: {cron: '* * * * *', every: 5s}}\n")
    problem = project.problem()
    assert problem.name == "jobs.a.cron and jobs.a.every"
    assert problem.message == "contradict each other: a schedule has cron or every, not both"


def test_every_in_the_environment_overrules_cron_in_the_file(project: Project) -> None:
    project.write("workfleet.yaml", "jobs: {a: {cron: '* * * * *'}}\n")
    loaded = project.read({"WORKER_JOBS__A__EVERY": "5s"})
    assert list(loaded.core.jobs["a"].given()) == ["every"]


def test_a_pool_stands_beside_the_sections_options(project: Project) -> None:
    project.write("workfleet.yaml", "pools:\n  max_queue: 7\n  images: {size: 4, memory: 512MB}\n")
    loaded = project.read({"WORKER_POOLS__IMAGES__SIZE": "auto", "WORKER_POOLS__PDF_RENDER__CALL_TIMEOUT": "none"})
    pools = loaded.with_names(pools=["images", "pdf-render"]).section("pools", PoolsSettings)
    assert pools.max_queue == 7
    assert {name: one.given() for name, one in pools.overrides.items()} == {
        "images": {"size": "auto", "memory": 512_000_000},
        "pdf-render": {"call_timeout": None},
    }
    assert str(loaded.origins["pools.images.memory"]) == "workfleet.yaml:3"


def test_an_unknown_pool_is_named(project: Project) -> None:
    project.write("workfleet.yaml", "pools: {imagse: {size: 4}}\n")
    with pytest.raises(ConfigError) as caught:
        project.read().with_names(pools=["images"])
    assert str(caught.value.problems[0]) == (
        "pools.imagse.size (from workfleet.yaml:1): there is no pool 'imagse'; did you mean images?"
    )


def test_an_unknown_option_of_a_pool_is_named(project: Project) -> None:
    project.write("workfleet.yaml", "pools: {images: {sise: 4}}\n")
    assert project.problem().message == "is not a setting; did you mean pools.images.size?"


def test_a_reader_can_report_in_the_users_words(project: Project) -> None:
    loaded = project.read({"WORKER_JOBS__A__CRON": "61 * * * *"}).with_names(jobs=["a"])
    problem = loaded.problem(("jobs", "a", "cron"), "minute 61 is above 59")
    assert str(problem) == "WORKER_JOBS__A__CRON = 61 * * * * (from environment): minute 61 is above 59"
    assert str(loaded.problem(("jobs", "a", "every"), "is missing")) == "WORKER_JOBS__A__EVERY: is missing"


# Queues


def test_a_queue_is_named_in_the_environment(project: Project) -> None:
    project.write("workfleet.yaml", "queue_limits: {e-mails: {rate_limit: 5/1s, weight: 2}}\n")
    env = {
        "WORKER_QUEUE_LIMITS__E_MAILS__FLEET_CONCURRENCY": "10",
        "WORKER_QUEUE_LIMITS__E_MAILS__RATE_LIMIT": "none",
        "WORKER_QUEUE_LIMITS__E_MAILS__MAX_PAYLOAD": "2MB",
        "WORKER_MAX_JOBS": "7",
        "WORKER_MAX_PAYLOAD": "64MiB",
    }
    loaded = project.read(env).with_names(queues=["e-mails", "other"])
    core = loaded.core
    assert loaded.core.queue_limits["e-mails"].rate_limit is None
    del env["WORKER_QUEUE_LIMITS__E_MAILS__RATE_LIMIT"]
    assert str(project.read(env).with_names(queues=["e-mails"]).core.queue_limits["e-mails"].rate_limit) == "5/1s"
    assert {name: override.given() for name, override in core.queue_limits.items()} == {
        "e-mails": {"weight": 2, "fleet_concurrency": 10, "rate_limit": None, "max_payload": 2_000_000}
    }
    assert (core.max_jobs, core.max_payload) == (7, 64 * 2**20)


@pytest.mark.parametrize(
    ("env", "said"),
    [
        ({"WORKER_QUEUE_LIMITS__Q__RATE_LIMIT": "fast"}, "a number of starts and a duration, such as '100/1m'"),
        ({"WORKER_QUEUE_LIMITS__Q__FLEET_CONCURRENCY": "0"}, "1 to 1000000"),
        ({"WORKER_QUEUE_LIMITS__Q__MAX_PAYLOAD": "65MiB"}, "a size from 1kB to 64MiB"),
        ({"WORKER_MAX_PAYLOAD": "10B"}, "a size from 1kB to 64MiB"),
        ({"WORKER_MAX_JOBS": "0"}, "1 to 100000"),
        ({"WORKER_QUEUE_LIMITS__Q__FLEET_CONCURENCY": "1"}, "WORKER_QUEUE_LIMITS__Q__FLEET_CONCURRENCY"),
    ],
)
def test_what_a_queue_cannot_be_told(project: Project, env: dict[str, str], said: str) -> None:
    assert said in str(project.problem(env))


def test_a_queue_that_is_not_there(project: Project) -> None:
    loaded = project.read({"WORKER_QUEUE_LIMITS__EMIALS__WEIGHT": "2"})
    with pytest.raises(ConfigError) as caught:
        loaded.with_names(queues=["emails"])
    assert [str(one) for one in caught.value.problems] == [
        "WORKER_QUEUE_LIMITS__EMIALS__WEIGHT (from environment): there is no queue 'emials'; did you mean emails?"
    ]


def test_a_file_says_of_a_schedule_what_code_says(project: Project) -> None:
    project.write(
        "workfleet.yaml",
        "jobs:\n  nightly:\n    every: 1h\n    offset: 5m\n    start: 2090-01-01\n    end: 2090-01-02T03:04:05Z\n"
        "    skip_on: [2090-12-24, '2090-12-25']\n    missed: catch_up( 7 )\n    overlap: queue_one\n"
        "    expires: none\n",
    )
    given = project.read().with_names(jobs=["nightly"]).core.jobs["nightly"].given()
    assert {name: str(value) for name, value in given.items()} == {
        "every": "1h", "offset": "5m", "start": "2090-01-01", "end": "2090-01-02T03:04:05Z",
        "skip_on": "['2090-12-24', '2090-12-25']", "missed": "catch_up(7)", "overlap": "queue_one", "expires": "None",
    }  # fmt: skip


def test_the_pool_cpu_and_the_option_cpu_are_told_apart(project: Project) -> None:
    def pools(env: dict[str, str]) -> tuple[float | None, dict[str, object]]:
        section = project.read(env).with_names(pools=["cpu"]).section("pools", PoolsSettings)
        return section.cpu, section.overrides["cpu"].given() if section.overrides else {}

    project.write("workfleet.yaml", "pools: {cpu: {size: 4, restart_policy: {max_restarts: 5}}}\n")
    group = {"size": 4, "restart_policy": {"max_restarts": 5}}
    assert pools({}) == (None, group)
    assert pools({"WORKER_POOLS__CPU": "2", "WORKER_POOLS__CPU__SIZE": "8"}) == (2.0, {**group, "size": 8})
    assert pools({"WORKER_POOLS__CPU__CPU": "1"}) == (None, {**group, "cpu": 1.0})
    project.write("workfleet.yaml", "pools: {cpu: 2}\n")
    assert pools({"WORKER_POOLS__CPU__SIZE": "8"}) == (2.0, {"size": 8})
