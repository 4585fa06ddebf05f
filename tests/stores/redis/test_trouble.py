"""What a server says, as one clear line; from Redis 6 and 7, plain and from within a script."""

from __future__ import annotations

import pytest
from redis.exceptions import AuthenticationError, BusyLoadingError, ResponseError

from workfleet.stores.redis import trouble

S = "redis://h:6379/0"


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ("READONLY You can't write against a read only replica.", "the server is a read-only replica (READONLY)"),
        (
            "READONLY You can't write against a read only replica. script: 1f, on @user_script:1.",
            "the server is a read-only replica (READONLY)",
        ),
        (
            "ERR Error running script (call to f_1f): @user_script:3: @user_script: 3: -READONLY You can't write",
            "the server is a read-only replica (READONLY)",
        ),
        ("LOADING Redis is loading the dataset in memory", "the server is loading its data (LOADING)"),
        (
            "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
            "the server is a replica that has lost its primary (MASTERDOWN)",
        ),
        ("CLUSTERDOWN Hash slot not served", "the cluster is down (CLUSTERDOWN)"),
        ("BUSY Redis is busy running a script.", "the server is busy with a script of somebody (BUSY)"),
        ("ERR max number of clients reached", "the server has as many clients as it allows"),
        (
            "ERR ACL failure in script: No permissions to access a key script: on @user_script:71.",
            "the user lacks a right on the server (NOPERM: No permissions to access a key)",
        ),
        (
            "NOPERM this user has no permissions to run the 'xadd' command",
            "the user lacks a right on the server (NOPERM: this user has no permissions to run the 'xadd' command)",
        ),
        (
            "WRONGTYPE Operation against a key holding the wrong kind of value script: on @user_script:1439.",
            "another program has written to a key of a queue (WRONGTYPE)",
        ),
        ("ERR syntax error", "the server refused a command: ERR syntax error"),
    ],
)
def test_errors_of_the_server(said: str, reason: str) -> None:
    assert trouble.refused(S, said).reason == reason


def test_no_secret_is_repeated() -> None:
    said = trouble.unreachable(
        S, AuthenticationError("unknown command `AUTH`, with args beginning with: `hunter2`"), "hunter2"
    )
    assert said.reason == "the server refuses the user or the password (WRONGPASS)"
    assert "hunter2" not in str(trouble.unreachable(S, OSError("hunter2"), "hunter2"))


def test_a_server_that_loads_while_one_logs_in() -> None:
    assert trouble.unreachable(S, BusyLoadingError("x"), None).reason == "the server is loading its data (LOADING)"


def test_a_database_that_a_cluster_does_not_have() -> None:
    said = trouble.unreachable(S, ResponseError("SELECT is not allowed in cluster mode"), None)
    assert (said.reason, said.passing) == (
        "a cluster has no database but 0 (SELECT is not allowed in cluster mode)", False
    )  # fmt: skip
