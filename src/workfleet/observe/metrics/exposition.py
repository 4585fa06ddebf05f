"""What was measured as Prometheus' text format, version 0.0.4, and as a file that is replaced whole.

After https://prometheus.io/docs/instrumenting/exposition_formats/. Pure but for `write_textfile`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from itertools import accumulate, groupby
from math import inf, isnan
from pathlib import Path

from workfleet.ports.metrics import LabelSet, Sample

from .catalogue import CATALOGUE
from .model import StoredSample

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


def exposition(samples: Iterable[Sample | StoredSample]) -> str:
    """The samples as text. Of a name that has several kinds, only those of the first are in it."""
    lines: list[str] = []
    for name, family in groupby(sorted(samples, key=_key), key=lambda sample: sample.name):
        of_name = list(family)
        kind = of_name[0].kind
        if name in CATALOGUE:
            lines.append(f"# HELP {name} {_help(CATALOGUE[name].text)}")
        lines.append(f"# TYPE {name} {kind}")
        for sample in of_name:
            if sample.kind == kind:
                lines += _histogram(sample) if kind == "histogram" else [_line(name, sample.labels, sample.value)]
    return "".join(f"{line}\n" for line in lines)


def write_textfile(path: Path, text: str) -> None:
    """Replace the file whole: who reads it sees the old one or the new one. Raises OSError."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        temporary.write_text(text, "utf-8")
        os.replace(temporary, path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise


def _key(sample: Sample | StoredSample) -> tuple[str, LabelSet]:
    return sample.name, sample.labels


def _histogram(sample: Sample | StoredSample) -> Iterator[str]:
    for bound, below in zip((*sample.bounds, inf), accumulate(sample.buckets), strict=True):
        yield _line(f"{sample.name}_bucket", (*sample.labels, ("le", _number(bound))), below)
    yield _line(f"{sample.name}_sum", sample.labels, sample.value)
    yield _line(f"{sample.name}_count", sample.labels, sample.count)


def _line(name: str, labels: LabelSet, value: float) -> str:
    pairs = ",".join(f'{label}="{_label(text)}"' for label, text in labels)
    return f"{name}{{{pairs}}} {_number(value)}" if pairs else f"{name} {_number(value)}"


def _number(value: float) -> str:
    if isnan(value):
        return "NaN"
    if value in (inf, -inf):
        return "+Inf" if value > 0 else "-Inf"
    return str(int(value)) if value == int(value) and abs(value) < 1e15 else repr(float(value))


def _label(text: str) -> str:
    # Half of a surrogate pair is no text that UTF-8 could write.
    text = text.encode("utf-8", "replace").decode("utf-8")
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


def _help(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n")
