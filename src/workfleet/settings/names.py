"""What settings are called: in the environment, in files, on the command line and in code; and the nearest known name.

The source documents' own names (REDIS_HOST, DB_PASS, APP_VERSION) and the settings that have two names are listed here.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

from .given import SettingPath, fold
from .tree import Group, Leaf, Node, find, leaves

PREFIX = "WORKER_"

ENV_NAMES: Mapping[SettingPath, str] = MappingProxyType(
    {
        ("redis", "enabled"): "REDIS_ENABLED",
        ("redis", "host"): "REDIS_HOST",
        ("redis", "port"): "REDIS_PORT",
        ("redis", "user"): "REDIS_USER",
        ("redis", "password"): "REDIS_PASSWORD",
        ("redis", "db"): "REDIS_DB",
        ("redis", "tls"): "REDIS_TLS",
        ("redis", "url"): "REDIS_URL",
        ("db", "type"): "DB_TYPE",
        ("db", "host"): "DB_HOST",
        ("db", "port"): "DB_PORT",
        ("db", "name"): "DB_NAME",
        ("db", "user"): "DB_USER",
        ("db", "password"): "DB_PASS",
    }
)
"""Settings whose environment name has no prefix; WORKER_REDIS__HOST and its like work too."""

PATHS: Mapping[str, SettingPath] = MappingProxyType({name: path for path, name in ENV_NAMES.items()})

FALLBACKS: Mapping[str, SettingPath] = MappingProxyType({"APP_VERSION": ("release",)})
"""Names that are not ours: they are used where no name of ours gives the setting."""

SAME: Mapping[SettingPath, SettingPath] = MappingProxyType(
    {
        ("scheduler", "enabled"): ("scheduler_enabled",),
        ("scheduler", "timezone"): ("timezone",),
        ("scheduler", "enable_queueing"): ("queue_enabled",),
        ("scheduler", "default_queue"): ("default_queue",),
    }
)
"""Options of a module that are settings of the worker under another name: one value, two names."""

FOLLOWS: Mapping[SettingPath, SettingPath] = MappingProxyType({("health", "version"): ("release",)})
"""Settings that take another's value while nobody gives them one."""


def file_key(root: Group, path: SettingPath) -> str:
    """The dotted name in files: `pools.images.size`."""
    return ".".join(_written(root, path))


def env_name(root: Group, path: SettingPath) -> str:
    """The name in the environment: `WORKER_POOLS__IMAGES__SIZE`."""
    return ENV_NAMES.get(path) or PREFIX + "__".join(fold(part).upper() for part in _written(root, path))


def flag_name(path: SettingPath) -> str:
    """The option on the command line: `--shutdown-timeout`."""
    return "--" + "-".join(path).replace("_", "-")


def _written(root: Group, path: SettingPath) -> list[str]:
    parts: list[str] = []
    node: Node | None = root
    for key in path:
        if not (isinstance(node, Group) and node.beside == key):
            parts.append(key)
        node = node.child(key) if isinstance(node, Group) else None
    return parts


def resolve(group: Group, segments: Sequence[str]) -> Node | None:
    """What the segments of an environment name (`["LOCK", "DEFAULT_TTL"]`) mean below a group; None: nothing.

    The key of an entry comes back folded: the real name is settled when the application's names are known.
    """
    if not segments:
        return group
    known = _by_fold(group)
    for end in range(1, len(segments) + 1):
        found = known.get("__".join(segments[:end]).casefold())
        if isinstance(found, Group) and (below := resolve(found, segments[end:])) is not None:
            return below
        if isinstance(found, Leaf) and end == len(segments):
            return found
    entries = group.entries()
    return _resolve_entry(entries, segments) if entries is not None else None


def _resolve_entry(entries: Group, segments: Sequence[str]) -> Node | None:
    # The name may hold `__` itself, so the longest name that leaves an option behind is tried first.
    for end in range(len(segments), 0, -1):
        entry = entries.child("__".join(segments[:end]).lower())
        if isinstance(entry, Leaf) and end == len(segments):
            return entry
        if isinstance(entry, Group) and end < len(segments) and (found := resolve(entry, segments[end:])) is not None:
            return found
    entry = entries.child("__".join(segments).lower())
    return entry if len(segments) == 1 else None


def _by_fold(group: Group) -> dict[str, Node]:
    """The fields that an environment name can mean here. The field of entries written beside is not one of them."""
    fields = {name: node for name, node in group.fields.items() if name != group.beside}
    spelled = {fold(alias): fields[name] for alias, name in group.aliases.items() if name in fields}
    return {**spelled, **{fold(name): node for name, node in fields.items()}}


def is_beside(root: Group, path: SettingPath) -> bool:
    """Whether a path is an entry that stands beside a section's own options, such as a pool."""
    section = find(root, path[:-2])
    return len(path) > 1 and isinstance(section, Group) and section.beside == path[-2]


def _squeezed(name: str) -> str:
    return re.sub(r"[\W_]", "", name.casefold())


def nearest(name: str, known: Iterable[str], cutoff: float = 0.8) -> str | None:
    """The known name that was probably meant: the same but for case and signs, else one that looks much alike."""
    by_form = {_squeezed(one): one for one in known}
    form = _squeezed(name)
    found = difflib.get_close_matches(form, by_form, n=1, cutoff=cutoff)
    # The ratio is hard on short names: `lokc` is one slip from `lock`.
    slips = found or [one for one in by_form if len(one) > 2 and _one_slip(form, one)]
    return by_form[slips[0]] if slips else None


def _one_slip(first: str, second: str) -> bool:
    """Whether one letter is wrong, missing, too many, or two neighbours are swapped."""
    short, long = sorted((first, second), key=len)
    if len(long) - len(short) == 1:
        return any(long[:index] + long[index + 1 :] == short for index in range(len(long)))
    if len(long) != len(short):
        return False
    wrong = [index for index in range(len(long)) if long[index] != short[index]]
    if len(wrong) == 2 and wrong[1] == wrong[0] + 1:
        return long[wrong[0]] == short[wrong[1]] and long[wrong[1]] == short[wrong[0]]
    return len(wrong) == 1


def nearest_env(root: Group, rest: str) -> str | None:
    """The environment name that was probably meant by WORKER_ and `rest`, where nothing has that name."""
    *head, tail = _known_part(root, rest.split("__"))
    group = resolve(root, head)
    if isinstance(group, Group) and head:
        # Inside a section of ours nearly everything is a slip.
        near = nearest(tail, _options(group, deep="__" in tail), cutoff=0.75)
        return PREFIX + "__".join([*head, near.upper()]) if near else None
    first, *more = tail.split("__")
    if more and (near := nearest(first, [fold(name) for name in root.fields])):
        return PREFIX + "__".join([near.upper(), *more])
    names = [env_name(root, leaf.path).removeprefix(PREFIX) for leaf in leaves(root)]
    # Also a single underscore where two belong (WORKER_LOCK_DEFAULT_TTL), and a prefix too many (WORKER_REDIS_HOST).
    near = nearest(rest, names, cutoff=0.85)
    return near if near is None or near in PATHS else PREFIX + near


def _known_part(root: Group, segments: Sequence[str]) -> list[str]:
    """The segments that lead to a group, and the rest as one."""
    for end in range(len(segments) - 1, 0, -1):
        if isinstance(resolve(root, segments[:end]), Group):
            return [*segments[:end], "__".join(segments[end:])]
    return ["__".join(segments)]


def _options(group: Group, *, deep: bool) -> list[str]:
    if not deep:
        return [fold(name) for name in group.fields]
    return ["__".join(map(fold, leaf.path[len(group.path) :])) for leaf in leaves(group)]


def known_keys(root: Group, path: SettingPath) -> list[str]:
    """What may stand in a file below a path."""
    node = find(root, path)
    return [name for name in node.fields if name != node.beside] if isinstance(node, Group) else []
