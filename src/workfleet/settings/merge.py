"""From all that was given to one value a setting: names of jobs and pools are settled, the highest source wins.

Two values for one setting from the same source are a contradiction: nobody can tell which was meant.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from .given import Findings, Given, SettingPath, Source, fold
from .names import nearest
from .tree import Group, find

BY_NAME: tuple[SettingPath, ...] = (("jobs",), ("pools", "overrides"), ("queue_limits",), ("health", "queue_ages"))
"""The groups whose keys are names that the application declares."""


def settle_names(
    givens: Sequence[Given], group: SettingPath, known: Iterable[str] | None, findings: Findings
) -> list[Given]:
    """Give each value below `group` the real name that it means.

    An environment name means the known name that folds to it; while `known` is None, the names in files and code are
    all that is known and nothing is judged. Unknown and ambiguous names are noted and dropped.
    """
    size = len(group)
    inside = [one for one in givens if one.path[:size] == group]
    if known is None:
        known_here = {one.path[size] for one in inside if not one.origin.source.is_environment}
    else:
        known_here = set(known)
    names = sorted(known_here)
    settled: dict[tuple[str, bool], str | None] = {}
    result: list[Given] = []
    for one in givens:
        if one.path[:size] != group:
            result.append(one)
            continue
        key = one.path[size], one.origin.source.is_environment
        if key not in settled:
            settled[key] = _real_name(one, group, names, findings, judge=known is not None)
        if (name := settled[key]) is not None:
            result.append(replace(one, path=(*group, name, *one.path[size + 1 :])))
    return result


def _real_name(one: Given, group: SettingPath, names: Sequence[str], findings: Findings, *, judge: bool) -> str | None:
    written, what, origin = one.path[len(group)], {"jobs": "job", "pools": "pool"}.get(group[0], "queue"), one.origin
    if origin.source.is_environment:
        meant = [name for name in names if fold(name) == fold(written)]
        if len(meant) > 1:
            listed = " and ".join(meant)
            findings.problem(origin.name, f"could mean {listed}: say it in the settings file", None, origin)
            return None
        if meant or not judge:
            return meant[0] if meant else written
    elif written in names or not judge:
        return written
    near = nearest(written, names)
    known = f"did you mean {near}?" if near else f"known: {', '.join(names) or 'none'}"
    if origin.source.is_environment and near is None:
        findings.warn(f"{origin.name} ({origin}): there is no {what} of that name, {known}")
    else:
        findings.problem(origin.name, f"there is no {what} {written!r}; {known}", None, origin)
    return None


def effective(root: Group, givens: Iterable[Given], findings: Findings) -> dict[SettingPath, Given]:
    """The value that holds for each setting, by its path."""
    chosen: dict[SettingPath, Given] = {}
    for one in givens:
        other = chosen.get(one.path)
        if other is None or one.origin.source > other.origin.source:
            chosen[one.path] = one
        elif one.origin.source == other.origin.source:
            if one.origin.source is Source.CODE:
                # What a factory made comes later than what the code gave, and replaces it.
                chosen[one.path] = one
            elif one.value != other.value:
                _contradiction(root, other, one, findings)
    return _without_overruled_times(chosen)


def _contradiction(root: Group, first: Given, second: Given, findings: Findings) -> None:
    leaf = find(root, first.path)
    values = "two values" if isinstance(leaf, Group | None) else f"{leaf.show(first.raw)} and {leaf.show(second.raw)}"
    places = dict.fromkeys((str(first.origin), str(second.origin)))
    findings.problem(
        f"{first.origin.name} and {second.origin.name}",
        "are two names of one setting and disagree: keep one",
        values,
        " and ".join(places),
    )


def _without_overruled_times(chosen: Mapping[SettingPath, Given]) -> dict[SettingPath, Given]:
    """A job has `cron` or `every`: one from the environment overrules the other from a file."""
    result = dict(chosen)
    for path, one in chosen.items():
        if path[0] == "jobs" and path[-1] in ("cron", "every"):
            twin = chosen.get((*path[:-1], "every" if path[-1] == "cron" else "cron"))
            if twin is not None and twin.origin.source > one.origin.source:
                del result[path]
    return result
