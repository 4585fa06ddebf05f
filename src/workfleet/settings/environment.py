"""The settings in environment variables: which variables are ours, which are Kubernetes', and which look like a slip.

Case aside, `WORKER_LOCK__DEFAULT_TTL` is lock.default_ttl. An empty variable is one that is not set: manifests that
fill in `$NAME` leave it empty.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from .expand import Expander, always
from .given import Findings, Given, Origin, Source, fold
from .names import ENV_NAMES, FALLBACKS, PATHS, PREFIX, is_beside, nearest, nearest_env, resolve
from .secrets import shown, sounds_secret
from .tree import Group, Node, find

_LINK_NAME = re.compile(r".+_(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)")
_LINK_ADDRESS = re.compile(r"(tcp|udp|sctp)://", re.IGNORECASE)
_SHARED_FAMILIES = ("REDIS_", "DB_")


def is_service_link(name: str, value: str) -> bool:
    """Whether Kubernetes (or Docker's links) set this variable for a Service of that name: it is not a setting."""
    return _LINK_NAME.fullmatch(name) is not None or (
        name.endswith("_PORT") and _LINK_ADDRESS.match(value.strip()) is not None
    )


class Environment:
    """Reads the variables of one environment. `file_origins` are those whose value comes from a .env file."""

    def __init__(
        self,
        root: Group,
        expander: Expander,
        file_origins: Mapping[str, Origin],
        findings: Findings,
        *,
        app_known: bool,
    ) -> None:
        self._root, self._expander, self._findings = root, expander, findings
        self._file_origins, self._app_known = file_origins, app_known

    def read(self, environ: Mapping[str, str]) -> Iterator[Given]:
        """Every setting in the environment. Unknown names are noted: an error when close to a known one."""
        for name, value in environ.items():
            if value == "":
                continue
            upper = name.upper()
            node = self._known(upper, value)
            # Two underscores are never Kubernetes', so a section's own `port` may hold such an address.
            if is_service_link(upper, value) and (node is None or "__" not in upper):
                continue
            if node is not None:
                origin = self._origin(name, fallback=upper in FALLBACKS)
                yield from self._expander.value(node, value, node.path, always(origin))
            else:
                self._judge(name, upper, value)

    def _origin(self, name: str, *, fallback: bool = False) -> Origin:
        found = self._file_origins.get(name)
        place = found.place if found else "environment"
        source = found.source if found else Source.ENVIRONMENT
        return Origin(Source.FALLBACK if fallback else source, place, name)

    def _known(self, upper: str, value: str) -> Node | None:
        path = PATHS.get(upper) or FALLBACKS.get(upper)
        if path is not None:
            return find(self._root, path)
        rest = upper.removeprefix(PREFIX)
        node = resolve(self._root, rest.split("__")) if rest and rest != upper else None
        # WORKER_POOLS__MAX_QEUE=5 is a slip, not a pool of that name.
        is_slip = isinstance(node, Group) and is_beside(self._root, node.path) and not value.lstrip().startswith("{")
        return None if is_slip else node

    def _judge(self, name: str, upper: str, value: str) -> None:
        if upper.startswith(_SHARED_FAMILIES):
            # Others use these families too, so a likeness is worth a word and no more.
            near = nearest(upper, ENV_NAMES.values(), cutoff=0.92)
            if near is not None:
                self._findings.warn(f"{name} ({self._origin(name)}) is not a setting; did you mean {near}?")
            return
        if not upper.startswith(PREFIX) or upper == PREFIX or self._may_be_the_apps(upper, value):
            return
        near = nearest_env(self._root, upper.removeprefix(PREFIX))
        if near is not None:
            hidden = shown(value, secret=sounds_secret(name) or sounds_secret(near))
            self._findings.problem(name, f"is not a setting; did you mean {near}?", hidden, self._origin(name))
        else:
            self._findings.warn(f"{name} ({self._origin(name)}) is not a setting of workfleet or of this app: ignored")

    def _may_be_the_apps(self, upper: str, value: str) -> bool:
        """Whether only a process that loads the application can tell."""
        first, *rest = upper.removeprefix(PREFIX).split("__")
        if self._app_known or first.casefold() in map(fold, self._root.fields):
            return False
        return bool(rest) or value.lstrip().startswith("{")
