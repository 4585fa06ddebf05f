"""Prometheus' text format, read back by Prometheus' own parser; and the file that holds it."""

from __future__ import annotations

import asyncio
import os
import threading
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families as parsed

from tests.observe.manual_clock import ManualClock
from workfleet.events import Event, MetricsFileFailed
from workfleet.observe.metrics.catalogue import CATALOGUE
from workfleet.observe.metrics.exposition import exposition, write_textfile
from workfleet.observe.metrics.registry import MetricsRegistry
from workfleet.observe.metrics.textfile import Textfile
from workfleet.ports.metrics import Sample

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
    assert exposition([sample]).encode() == b'# TYPE x gauge\nx{v="a?b"} 1\n'


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
    assert exposition(samples) == "# TYPE x counter\nx 1\n"
    assert exposition([]) == ""


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
    assert path.read_text() == "# TYPE x_total counter\nx_total 1\n"
    registry.counter("x_total")
    serving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await serving
    assert path.read_text().endswith("x_total 2\n")
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
    file.write()
    assert path.read_text() == ""
    path.unlink()
    path.mkdir()
    file.write()
    assert len(told) == 2, "a new trouble is told anew"
