"""The benches on Redis: our side of each, small and with real workers; the server, and what peers on it share."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from bench.bench import BenchError, Trial
from bench.redis_idle import idle
from bench.redis_peer import Setup, enqueue, python_peer, throughput
from bench.registry import all_benches
from bench.session import measure
from bench.valkey import Connection, serving

BENCHES = all_benches()


def test_throughput_is_measured_with_a_real_worker() -> None:
    found = measure(BENCHES["throughput-redis"], {}, [], size=500, runs=1)
    assert 100 < found.ours["jobs_per_s"] < 1_000_000
    assert 0 <= found.ours["left_jobs"] <= 500


def test_enqueueing_is_measured() -> None:
    found = measure(BENCHES["enqueue-redis"], {}, [], size=2_500, runs=1)
    assert 100 < found.ours["jobs_per_s"] < 10_000_000


@pytest.mark.full
def test_latency_is_measured() -> None:
    found = measure(BENCHES["latency-redis"], {}, [], size=10, runs=1)
    assert 0 < found.ours["p50_ms"] <= found.ours["p99_ms"] < 10_000


@pytest.mark.full
def test_idling_is_measured() -> None:
    # Longer than a poll, so that a worker that does nothing else asks the store.
    found = measure(BENCHES["idle-redis"], {}, [], size=12, runs=1)
    assert 0 < found.ours["commands_per_minute"] <= found.ours["calls_per_minute"]
    assert found.ours["percent_of_a_core"] > 0


def test_what_clients_send_is_told_from_what_scripts_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        other = Connection(server.port)
        pauses: list[float] = []

        def sleep(seconds: float) -> None:
            pauses.append(seconds)
            if len(pauses) == 2:
                other.ask("EVAL", "redis.call('SET', 'a', 1) return redis.call('GET', 'a')", "0")
                other.ask("SET", "said", "lua] INFO")

        monkeypatch.setattr("bench.redis_idle.time.sleep", sleep)
        found = idle(server, [], 60)
        other.close()
    # EVAL and SET, of the first two more inside.
    assert found["calls_per_minute"] == pytest.approx(2 * found["commands_per_minute"])
    assert found["commands_per_minute"] > 0


def test_a_server_begins_empty_and_ends_with_its_body(tmp_path: Path) -> None:
    for turn in ("one", "two"):
        folder = tmp_path / turn
        folder.mkdir()
        with serving(folder) as server:
            assert server.count("DBSIZE") == 0
            assert server.ask("SET", "left", "behind") == b"OK"
            assert server.ask("CONFIG", "GET", "appendonly") == [b"appendonly", b"no"]
            with pytest.raises(BenchError, match="NOTHING: ERR unknown command"):
                server.ask("NOTHING")
        with pytest.raises(OSError, match="refused"):
            Connection(server.port)


def _says(*lines: str) -> Sequence[str]:
    return [sys.executable, "-c", "\n".join(("import os, pathlib, time", *lines))]


def _fill(turned: Setup) -> Sequence[str]:
    assert turned.server.count("DBSIZE") == 0
    return _says("pathlib.Path('filled').write_text(os.environ['BENCH_SIZE'])", "print(1234.5)")


def _work(_turned: Setup) -> Sequence[str]:
    return _says(
        "assert pathlib.Path('filled').exists() and os.environ['BENCH_CONCURRENCY'] == '100'",
        "pathlib.Path('first').write_text('10')",
        "pathlib.Path('last').write_text('14')",
        "time.sleep(60)",
    )


def test_a_slow_peer_gets_its_share_of_the_jobs(tmp_path: Path) -> None:
    trial = Trial(400, tmp_path, tmp_path)
    with throughput(_fill, _work, 0.1)(trial) as turn:
        assert turn() == {"jobs_per_s": 10.0}
    assert (tmp_path / "1" / "filled").read_text() == "40"


def test_a_peer_s_producer_says_how_fast_it_was(tmp_path: Path) -> None:
    with enqueue(_fill)(Trial(400, tmp_path, tmp_path)) as turn:
        assert turn() == {"jobs_per_s": 1234.5}
    assert (tmp_path / "1" / "filled").read_text() == "400"


def test_a_peer_in_python_takes_part_with_the_programs_of_its_environment(tmp_path: Path) -> None:
    peer = python_peer("some", "as it is", ("some==1",), "huey_redis", ("some-worker", "-q"), share=0.5)
    assert list(peer.subjects) == ["throughput-redis"]
    trial = Trial(10, tmp_path, tmp_path / "home")
    with (
        peer.subjects["throughput-redis"](trial) as turn,
        pytest.raises(BenchError, match="home/bin/python"),
    ):
        turn()
