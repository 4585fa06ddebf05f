"""The bench of pools: ours and the standard library's are measured for real, small."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench import pooled
from bench.bench import BenchError, Trial, document
from bench.pooled import EXECUTOR, FIGURES, calls, ratios
from bench.registry import all_benches, all_peers
from bench.session import OURS, measure, names_beside

BENCH = all_benches()["pool"]


def test_ours_and_the_standard_librarys_pool_are_measured() -> None:
    found = measure(BENCH, {}, [EXECUTOR], size=400, runs=1)
    for figures in (found.ours, found.peers[EXECUTOR]):
        assert 10 < figures["calls_per_s"] < 10_000_000
        assert 0 < figures["p50_ms"] < 10_000
        assert 0 < figures["large_ms"] < 60_000
    printed = document(BENCH, found)
    assert printed["ratio"] == {
        EXECUTOR: pytest.approx(found.ours["calls_per_s"] / found.peers[EXECUTOR]["calls_per_s"], abs=0.001)
    }
    assert printed[f"large_ratio_{EXECUTOR}"] == pytest.approx(
        found.ours["large_ms"] / found.peers[EXECUTOR]["large_ms"], abs=0.001
    )


def test_it_stands_beside_four_other_pools() -> None:
    assert names_beside(BENCH, all_peers().values()) == (EXECUTOR, "loky", "pebble", "aiomultiprocess")


def test_ratios_are_ours_divided_by_theirs() -> None:
    medians = {
        OURS: {"calls_per_s": 10.0, "p50_ms": 1.0, "large_ms": 3.0},
        "one": {"calls_per_s": 5.0, "p50_ms": 4.0, "large_ms": 12.0},
        "two": {"calls_per_s": 5.0, "p50_ms": 2.0, "large_ms": 1.0},
    }
    expected = {"p50_ratio_one": 0.25, "p50_ratio_two": 0.5, "large_ratio_one": 0.25, "large_ratio_two": 3.0}
    assert ratios(medians, OURS) == expected


def test_a_slow_pool_gets_its_share_of_the_calls(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked: list[str] = []

    def run(command: list[str], folder: Path, environ: dict[str, str]) -> str:
        asked.append(environ["BENCH_SIZE"])
        assert command[0] == str(tmp_path / "home" / "bin" / "python")
        return json.dumps({**dict.fromkeys(FIGURES, 1), "more": 2})

    monkeypatch.setattr(pooled, "run", run)
    with calls("pool_x", 0.1)(Trial(400, tmp_path, tmp_path / "home")) as turn:
        assert turn() == dict.fromkeys(FIGURES, 1.0)
    assert asked == ["40"]


def test_a_program_that_prints_something_else_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for said in ("nothing", "{}", "[1]", '{"calls_per_s": 1, "p50_ms": "x", "large_ms": 1}'):
        monkeypatch.setattr(pooled, "run", lambda *_, said=said: said)
        with calls("pool_x")(Trial(4, tmp_path)) as turn, pytest.raises(BenchError, match="pool_x printed no figures"):
            turn()
        (tmp_path / "1").rmdir()


def test_a_wrong_answer_or_another_type_ends_the_program(capsys: pytest.CaptureFixture[str]) -> None:
    from bench.programs import pool_calls

    with pytest.raises(SystemExit, match="not those to the calls"):
        pool_calls.check([0, 2, 1], 3)
    taken = pool_calls.Taken()
    taken.single(0.0)
    taken.large(0.0, ("bytes", len(pool_calls.LARGE)))
    with pytest.raises(SystemExit, match="arrived as"):
        taken.large(0.0, ("bytearray", len(pool_calls.LARGE)))
    assert capsys.readouterr().out == ""
