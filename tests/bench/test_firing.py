"""The bench of next fires: our side of it, and a peer that computes something else."""

from __future__ import annotations

import json
from array import array
from pathlib import Path

import pytest

from bench import firing, scheduling
from bench.bench import BenchError, Trial
from bench.firing import next_fires
from bench.programs.firing import PAIRS
from bench.registry import all_benches
from bench.session import measure


@pytest.mark.full
def test_next_fires_and_what_many_schedules_ask_are_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scheduling, "LATENESS_OF", 2_000)
    monkeypatch.setattr(scheduling, "WATCHED_S", 2.0)
    monkeypatch.setattr(scheduling, "LOADED", 2_000)
    found = measure(all_benches()["scheduler"], {}, [], size=500, runs=1).ours
    assert 1_000 < found["fires_per_s"] < 100_000_000
    assert 0 <= found["lateness_p50_ms"] <= found["lateness_p99_ms"] < 10_000
    # Ten of them every second, 90 every ten seconds.
    assert found["slots_per_s"] > 10
    assert 0 < found["load_cpu_s"] < found["load_s"] < 60
    assert 10 < found["load_mb"] < 500
    assert 0 < found["ready_s"] < 60
    assert 10 < found["ready_mb"] < 500


def test_fires_that_are_not_ours_are_counted(tmp_path: Path) -> None:
    trial = Trial(500, tmp_path)
    assert next_fires(trial, "firing_ours")["differing_per_mille"] == 0
    told = array("q")
    told.frombytes((tmp_path / "fires").read_bytes())
    told[2] += 1
    (tmp_path / "fires").write_bytes(told.tobytes())
    assert firing._differing(tmp_path) == 1


def test_a_program_that_computes_fewer_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = json.dumps({"fires": len(PAIRS) - 1, "seconds": 1})
    monkeypatch.setattr(firing, "run", lambda *_: said)
    with pytest.raises(BenchError, match="99 fires, not 100"):
        next_fires(Trial(len(PAIRS), tmp_path), "x")
    monkeypatch.setattr(firing, "run", lambda *_: "nothing")
    with pytest.raises(BenchError, match="no figures"):
        next_fires(Trial(len(PAIRS), tmp_path), "x")


def test_cronsim_computes_the_same_outside_of_changes(tmp_path: Path) -> None:
    # cronsim is among the packages of the tests, so its program runs here as it does in its own environment.
    assert next_fires(Trial(500, tmp_path), "firing_cronsim")["differing_per_mille"] == 0
