"""The bench harness: turns and medians, the document, peers that break or cannot be had."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from bench import environments
from bench.bench import BenchError, Figures, Measured, Trial, alternate, document, each_turn, rows
from bench.environments import Npm, Pip, Unavailable, installed
from bench.page import MARKER
from bench.registry import all_benches, all_peers
from bench.session import measure, names_beside

from .fakes import FAKE, bench_of, breaks, gives, peer_of


def test_subjects_take_turns_and_the_medians_leave_the_warm_up_out() -> None:
    order: list[str] = []
    figures = {"ours": iter([100.0, 3.0, 1.0, 2.0]), "peer": iter([100.0, 8.0, 4.0, 4.0])}

    def turn(name: str) -> Callable[[], Mapping[str, float]]:
        def taken() -> Mapping[str, float]:
            order.append(name)
            return {"ms": next(figures[name])}

        return taken

    medians, failed = alternate({name: turn(name) for name in figures}, runs=3, warmups=1)
    assert medians == {"ours": {"ms": 2.0}, "peer": {"ms": 4.0}}
    assert failed == {}
    assert order == ["ours", "peer"] * 4


def test_the_document() -> None:
    peers = {"fake-peer": peer_of("fake-peer", gives(20.0, 10.0, 15.0))}
    found = measure(bench_of(gives(30.0, 60.0, 50.0)), peers, ["fake-peer"])
    assert document(bench_of(gives()), found) == {
        "bench": "fake-bench",
        "unit": "jobs/s",
        "better": "higher",
        "ours": 50.0,
        "peers": {"fake-peer": 15.0},
        "ratio": {"fake-peer": 3.333},
        "runs": 3,
        "size": 7,
        "rate": 50.0,
        "extra": 500.0,
        "peer_figures": {"fake-peer": {"rate": 15.0, "extra": 150.0}},
        "options": {"fake-peer": "fake-peer as it is"},
        "unavailable": {},
    }


def test_a_ratio_is_ours_divided_by_theirs_also_where_lower_is_better() -> None:
    bench = bench_of(gives(), better="lower", unit="ms")
    found = Measured(7, 3, {"rate": 4.0}, {"slow": {"rate": 10.0}, "fast": {"rate": 1.0}, "none": {"rate": 0.0}})
    assert document(bench, found)["ratio"] == {"slow": 0.4, "fast": 4.0, "none": 1e9}
    assert document(bench, found)["better"] == "lower"
    nothing = Measured(7, 3, {"rate": 0.0}, {"none": {"rate": 0.0}})
    assert json.loads(json.dumps(document(bench, nothing), allow_nan=False))["ratio"] == {"none": 0.0}


def test_a_peer_that_breaks_is_named_and_the_others_are_measured() -> None:
    order: list[str] = []
    peers = {
        "broken": peer_of("broken", breaks(1, "it ended with 3: no such table")),
        "good": peer_of("good", gives(1.0, 2.0, 3.0, order=order, who="good")),
    }
    found = measure(bench_of(gives(4.0, 4.0, 4.0)), peers, ["broken", "good"])
    assert found.peers == {"good": {"rate": 2.0, "extra": 20.0}}
    assert found.unavailable == {"broken": "it ended with 3: no such table"}
    assert order == ["good"] * 3
    assert [line[3] for line in rows(bench_of(gives()), found)] == [
        "2 jobs/s",
        "not measured: it ended with 3: no such table",
    ]


def test_a_peer_that_cannot_be_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_self: Pip, _home: Path) -> None:
        raise Unavailable("installing fake==1 failed: error: no matching distribution")

    monkeypatch.setattr(Pip, "install", refuse)
    found = measure(bench_of(gives(1.0, 1.0, 1.0)), {"gone": peer_of("gone", gives())}, ["gone"])
    assert found.unavailable == {"gone": "installing fake==1 failed: error: no matching distribution"}


@pytest.mark.parametrize(
    ("said", "problem"),
    [
        ("ERROR: Could not find x (from versions: 1)\nERROR: No matching distribution found for x==9\n", "ERROR: No m"),
        ("npm error code ETARGET\nnpm error notarget No version of x@9.\nnpm error A complete log of", "npm error not"),
        ("some\nother words\n", "other words"),
        ("", "it said nothing"),
    ],
)
def test_the_reason_is_the_line_that_says_it(said: str, problem: str, tmp_path: Path) -> None:
    with pytest.raises(Unavailable) as refused:
        environments._done([sys.executable, "-c", f"import sys; sys.exit({said!r})"], "installing x")
    assert str(refused.value).startswith(f"installing x failed: {problem}")


def test_node_peers_need_node(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    peers = {"node-peer": peer_of("node-peer", gives(), Npm("node", ("bullmq@6",)))}
    found = measure(bench_of(gives(1.0, 1.0, 1.0)), peers, ["node-peer"])
    assert found.unavailable == {"node-peer": "it needs node, which is not installed"}


def test_ours_that_breaks_ends_the_bench() -> None:
    with pytest.raises(BenchError, match="the worker is gone"):
        measure(bench_of(breaks(1, "the worker is gone")), {}, [])


def test_an_environment_is_made_once_and_again_when_its_pins_change(installs: list[str]) -> None:
    home = installed(FAKE)
    assert installed(FAKE) == home
    assert installs == ["fake"]
    installed(Pip("fake", ("fake==2",)))
    assert installs == ["fake", "fake"]


def test_what_failed_to_install_is_tried_again(monkeypatch: pytest.MonkeyPatch, installs: list[str]) -> None:
    install = Pip.install

    def half(_self: Pip, home: Path) -> None:
        home.mkdir(parents=True)
        raise Unavailable("cut off")

    monkeypatch.setattr(Pip, "install", half)
    with pytest.raises(Unavailable):
        installed(FAKE)
    monkeypatch.setattr(Pip, "install", install)
    installed(FAKE)
    assert installs == ["fake"]


def test_every_turn_has_an_empty_folder_of_its_own() -> None:
    seen: list[Path] = []

    def note(trial: Trial) -> Figures:
        assert list(trial.folder.iterdir()) == []
        (trial.folder / "left").touch()
        seen.append(trial.folder)
        return {"rate": float(trial.size)}

    found = measure(bench_of(each_turn(note)), {}, [], size=9, runs=2)
    assert (found.size, found.runs, found.ours) == (9, 2, {"rate": 9.0})
    assert len(set(seen)) == 2
    assert not seen[0].exists()


def test_a_baseline_is_measured_without_an_environment_and_figures_derive_from_it(installs: list[str]) -> None:
    bench = bench_of(
        gives(6.0, 6.0, 6.0),
        baselines={"base": gives(2.0, 2.0, 2.0)},
        derive=lambda medians: {"growth": medians["workfleet"]["rate"] - medians["base"]["rate"]},
    )
    assert names_beside(bench, []) == ("base",)
    found = measure(bench, {}, ["base"])
    assert document(bench, found)["growth"] == 4.0
    assert (found.options, installs) == ({}, [])


def test_the_benches_and_peers_of_the_project() -> None:
    benches, peers = all_benches(), all_peers()
    assert set(benches) >= {
        "startup",
        "throughput-sqlite",
        "enqueue-sqlite",
        "latency-sqlite",
        "idle-sqlite",
        "backlog-sqlite",
        "throughput-redis",
        "enqueue-redis",
        "latency-redis",
        "idle-redis",
        "scheduler",
    }
    for peer in peers.values():
        assert set(peer.subjects) <= set(benches), peer.name
    assert "huey-sqlite" in names_beside(benches["throughput-sqlite"], peers.values())
    assert names_beside(benches["startup"], peers.values()) == ("bare-python",)
    assert names_beside(benches["scheduler"], peers.values()) == ("cronsim", "croniter", "apscheduler")
    on_redis = "ardiq arq bullmq-node bullmq-python celery dramatiq huey-redis rq saq streaq taskiq"
    assert sorted(names_beside(benches["throughput-redis"], peers.values())) == on_redis.split()
    for name in ("enqueue-redis", "latency-redis", "idle-redis"):
        assert names_beside(benches[name], peers.values()) == ("bullmq-node",)


def test_the_document_names_every_bench() -> None:
    text = (environments.ROOT / "docs" / "benchmarks.md").read_text("utf-8")
    assert text.count(MARKER) == 1
    for name in all_benches():
        assert f"| `{name}` |" in text.partition(MARKER)[0]
