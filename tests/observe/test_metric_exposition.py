"""Prometheus' text format, read back by Prometheus' own parser; and the file that holds it."""

from __future__ import annotations

import asyncio
import os
import socket
import threading
from math import inf, isfinite, nan
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families as parsed

from tests.observe.manual_clock import ManualClock
from workfleet.events import Event, MetricsFileFailed
from workfleet.observe.metrics.catalogue import CATALOGUE
from workfleet.observe.metrics.exposition import exposition, write_textfile
from workfleet.observe.metrics.registry import MetricsRegistry
from workfleet.observe.metrics.textfile import Textfile
from workfleet.ports.metrics import Sample

HELP = b"# HELP x Measured by the application itself.\n"
ODD = ['"', "\\", "\n", 'a"b\\n\n', "é ☃", "{}", "", "a,b=c", "\\n", "\x00"]


def read_back(text: str) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """Every sample of a text."""
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in parsed(text)
        for sample in family.samples
    }


def test_a_round_trip_through_the_parser() -> None:
    registry = MetricsRegistry()
    registry.define("size_bytes", "histogram", buckets=[0.5, 10, 2_000_000])
    for value in (0.25, 3, 11, 5e9):
        registry.histogram("size_bytes", value, labels={"kind": "x"})
    registry.counter("photos_total", 3)
    registry.counter("money_total", 1e21)
    registry.gauge("cold", -2.5)
    text = exposition(registry.snapshot())
    kind = (("kind", "x"),)
    assert read_back(text) == {
        ("size_bytes_bucket", (*kind, ("le", "0.5"))): 1,
        ("size_bytes_bucket", (*kind, ("le", "10"))): 2,
        ("size_bytes_bucket", (*kind, ("le", "2000000"))): 3,
        ("size_bytes_bucket", (*kind, ("le", "+Inf"))): 4,
        ("size_bytes_sum", kind): 5_000_000_014.25,
        ("size_bytes_count", kind): 4,
        ("photos_total", ()): 3,
        ("money_total", ()): 1e21,
        ("cold", ()): -2.5,
    }
    types = {family.name: family.type for family in parsed(text)}
    assert types == {"size_bytes": "histogram", "photos": "counter", "money": "counter", "cold": "gauge"}
    assert text.endswith("\n")


def test_odd_label_values_come_through() -> None:
    registry = MetricsRegistry()
    for number, value in enumerate(ODD):
        registry.gauge("x", number, labels={"v": value})
    found = {dict(labels)["v"]: value for (_, labels), value in read_back(exposition(registry.snapshot())).items()}
    assert found == {value: number for number, value in enumerate(ODD)}


def test_what_is_no_text_can_still_be_written() -> None:
    sample = Sample(name="x", kind="gauge", labels=(("v", "a\ud800b"),), value=1)
    assert exposition([sample]).encode() == HELP + b'# TYPE x gauge\nx{v="a?b"} 1\n'


def test_every_family_stands_together_and_says_what_it_is() -> None:
    registry = MetricsRegistry()
    for metric in CATALOGUE.values():
        for value in ("b", "a"):
            labels = tuple((label, value) for label in metric.labels)
            if metric.kind == "histogram":
                registry.observe(metric.name, labels, 1)
            elif metric.kind == "counter":
                registry.add(metric.name, labels, 1)
            else:
                registry.put(metric.name, labels, 1)
    text = exposition(registry.snapshot())
    families = list(parsed(text))
    assert len(families) == len(CATALOGUE)
    for family in families:
        metric = CATALOGUE.get(family.name) or CATALOGUE[f"{family.name}_total"]
        assert (family.type, family.documentation) == (metric.kind, metric.text)
    heads = [line.split()[2] for line in text.splitlines() if line.startswith("# TYPE")]
    assert heads == sorted(CATALOGUE)


def test_one_name_of_two_kinds_is_told_once() -> None:
    samples = [Sample(name="x", kind=kind, labels=(), value=1) for kind in ("counter", "gauge")]  # type: ignore[arg-type]
    assert exposition(samples) == HELP.decode() + "# TYPE x counter\nx 1\n"
    assert exposition([]) == ""


def test_what_has_the_name_of_a_part_of_a_histogram_is_not_told_twice() -> None:
    histogram = Sample(name="x", kind="histogram", labels=(), value=1, count=1, bounds=(2.0,), buckets=(1, 0))
    lines = exposition([histogram, Sample(name="x_count", kind="counter", labels=(), value=7)]).splitlines()
    assert [line for line in lines if line.startswith("x_count")] == ["x_count 1"]


# Anything that can be measured

LABELS = st.dictionaries(st.sampled_from(["a", "b", "Z_9"]), st.text(max_size=8) | st.sampled_from(ODD), max_size=3)
MEASURED = st.lists(
    st.tuples(
        st.sampled_from(["counter", "gauge", "histogram"]),
        LABELS,
        st.floats(allow_nan=True, allow_infinity=True) | st.integers(-(10**20), 10**20) | st.sampled_from([1e308]),
    ),
    max_size=30,
)


def _measured(measured: list[tuple[str, dict[str, str], float]]) -> MetricsRegistry:
    registry = MetricsRegistry()
    registry.define("sizes_bytes", "histogram", buckets=[-1, 0.1, 1e9])
    for kind, labels, value in measured:
        if kind == "counter":
            registry.counter("done_total", abs(value), labels=labels)
        elif kind == "gauge":
            registry.gauge("waiting", value, labels=labels)
        else:
            registry.histogram("sizes_bytes", value, labels=labels)
    return registry


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(MEASURED)
def test_whatever_is_measured_is_read_back_as_it_was(measured: list[tuple[str, dict[str, str], float]]) -> None:
    samples = _measured(measured).snapshot()
    text = exposition(samples)
    heads = [line.split()[1:3] for line in text.splitlines() if line.startswith("#")]
    assert len(heads) == len({tuple(head) for head in heads}), "HELP and TYPE once a family"
    lines = [line for line in text.split("\n") if line and not line.startswith("#")]
    found = read_back(text)
    assert len(found) == len(lines), "no series twice"
    assert all(isfinite(value) for value in found.values())
    for sample in samples:
        labels = tuple(sorted(sample.labels))
        if sample.kind != "histogram":
            assert found.pop((sample.name, labels)) == sample.value
            continue
        assert found.pop((f"{sample.name}_sum", labels)) == sample.value
        assert found.pop((f"{sample.name}_count", labels)) == sample.count == sum(sample.buckets)
        below = 0
        for bound, count in zip(("-1", "0.1", "1000000000", "+Inf"), sample.buckets, strict=True):
            below += count
            assert found.pop((f"{sample.name}_bucket", tuple(sorted((*labels, ("le", bound)))))) == below
    assert found == {}


def test_not_a_number_and_the_infinite() -> None:
    values = {"nan": nan, "inf": inf, "low": -inf}
    text = exposition([Sample(name="x", kind="gauge", labels=(("v", v),), value=value) for v, value in values.items()])
    assert [line.rsplit(" ", 1)[1] for line in text.splitlines()[2:]] == ["+Inf", "-Inf", "NaN"]
    assert len(read_back(text)) == 3


# The file


def test_a_reader_sees_a_whole_file_at_any_time(tmp_path: Path) -> None:
    path = tmp_path / "m.prom"
    texts = {letter * 200_000 for letter in "abc"}
    write_textfile(path, "a" * 200_000)
    seen: set[str] = set()
    done = threading.Event()

    def read() -> None:
        while not done.is_set():
            seen.add(path.read_text())

    reader = threading.Thread(target=read)
    reader.start()
    for _ in range(50):
        for text in texts:
            write_textfile(path, text)
    done.set()
    reader.join()
    assert seen <= texts
    assert os.listdir(tmp_path) == ["m.prom"]


async def test_the_file_is_kept_up_to_date_and_written_once_more_at_the_end(tmp_path: Path) -> None:
    path, clock, registry, told = tmp_path / "deep" / "m.prom", ManualClock(), MetricsRegistry(), list[Event]()
    file = Textfile(path, registry.snapshot, clock, told.append, interval_ms=15_000)
    serving = asyncio.create_task(file.serve())
    registry.counter("x_total")
    assert await clock.somebody_sleeps() == 15
    assert not path.exists()
    clock.pass_time(15)
    assert await clock.somebody_sleeps() == 15
    assert path.read_text().endswith("# TYPE x_total counter\nx_total 1\n")
    written = f'workfleet_metrics_file_timestamp_seconds{{host="{socket.gethostname()}"}} 1800000015\n'
    assert written in path.read_text()
    registry.counter("x_total")
    serving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await serving
    assert path.read_text().endswith("x_total 2\n")
    assert "timestamp" not in path.read_text(), "nobody need worry that it grows old"
    assert told == []


def test_a_file_that_cannot_be_written_is_told_once_and_tried_again(tmp_path: Path) -> None:
    path, registry, told = tmp_path / "m.prom", MetricsRegistry(), list[Event]()
    path.mkdir()
    (path / "in the way").touch()
    file = Textfile(path, registry.snapshot, ManualClock(), told.append)
    file.write()
    file.write()
    assert [(type(event), event.fields()["path"]) for event in told] == [(MetricsFileFailed, str(path))]
    assert os.listdir(tmp_path) == ["m.prom"], "no temporary file stays behind"
    (path / "in the way").unlink()
    path.rmdir()
    file.write(last=True)
    assert path.read_text() == ""
    path.unlink()
    path.mkdir()
    file.write()
    assert len(told) == 2, "a new trouble is told anew"
