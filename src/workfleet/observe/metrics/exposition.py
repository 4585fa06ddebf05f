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
from .names import PARTS

_OF_THE_APPLICATION = "Measured by the application itself."
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


def exposition(samples: Iterable[Sample | StoredSample]) -> str:
    """The samples as text, each family once, with its help and type. Of a name that has several kinds, only those of
    the first are in it; what has the name of a part of a histogram is left out."""
    families = {name: list(family) for name, family in groupby(sorted(samples, key=_key), key=_name)}
    parts = {f"{name}{part}" for name, found in families.items() if found[0].kind == "histogram" for part in PARTS}
    lines: list[str] = []
    ends: dict[tuple[float, ...], list[str]] = {}
    for name, family in families.items():
        if name in parts:
            continue
        kind = family[0].kind
        text = CATALOGUE[name].text if name in CATALOGUE else _OF_THE_APPLICATION
        lines += (f"# HELP {name} {_help(text)}", f"# TYPE {name} {kind}")
        for sample in family:
            if sample.kind != kind:
                continue
            if kind == "histogram":
                lines += _histogram(sample, ends)
            else:
                lines.append(_line(name, _pairs(sample.labels), sample.value))
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


def _name(sample: Sample | StoredSample) -> str:
    return sample.name


def _histogram(sample: Sample | StoredSample, ends: dict[tuple[float, ...], list[str]]) -> Iterator[str]:
    """`ends` keeps the text of bounds, which many series share."""
    pairs = _pairs(sample.labels)
    head = f"{sample.name}_bucket{{{pairs},le=" if pairs else f"{sample.name}_bucket{{le="
    bounds = ends.get(sample.bounds)
    if bounds is None:
        bounds = ends[sample.bounds] = [_number(bound) for bound in (*sample.bounds, inf)]
    for bound, below in zip(bounds, accumulate(sample.buckets), strict=True):
        yield f'{head}"{bound}"}} {below}'
    yield _line(f"{sample.name}_sum", pairs, sample.value)
    yield _line(f"{sample.name}_count", pairs, sample.count)


def _pairs(labels: LabelSet) -> str:
    return ",".join([f'{label}="{_label(text)}"' for label, text in labels])


def _line(name: str, pairs: str, value: float) -> str:
    return f"{name}{{{pairs}}} {_number(value)}" if pairs else f"{name} {_number(value)}"


def _number(value: float) -> str:
    if isnan(value):
        return "NaN"
    if value in (inf, -inf):
        return "+Inf" if value > 0 else "-Inf"
    return str(int(value)) if value == int(value) and abs(value) < 1e15 else repr(float(value))


def _label(text: str) -> str:
    if not text.isascii():
        # Half of a surrogate pair is no text that UTF-8 could write.
        text = text.encode("utf-8", "replace").decode("utf-8")
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


def _help(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n")
