"""What a server, redis-py or the network says, as `StoreUnavailable`: what it means, what to do, and no secret."""

from __future__ import annotations

import re

from workfleet.errors import StoreUnavailable

# Before Redis 7 an error inside a script is wrapped: "ERR Error running script (…): @user_script:1: -READONLY You …".
_WRAPPED = re.compile(r": -([A-Z]+) ")

NOSCRIPT = "NOSCRIPT"
_UNTRUSTED = "CERTIFICATE_VERIFY_FAILED"
_WITH_TLS = ("rediss", "valkeys")
_SAY_CLUSTER = "Write redis+cluster:// instead of redis://"
_LOGIN = "its URL, or REDIS_USER and REDIS_PASSWORD"
_MEANS = {
    "READONLY": ("the server is a read-only replica", "It is asked again until it, or another one, is the primary"),
    "OOM": (
        "the server is out of memory (maxmemory) and refuses to write",
        "Give it more memory, or delete finished jobs with shorter retention",
    ),
    "LOADING": ("the server is loading its data", "It is asked again until it is ready"),
    "MASTERDOWN": ("the server is a replica that has lost its primary", "It is asked again"),
    "CLUSTERDOWN": ("the cluster is down", "It is asked again"),
    "MOVED": ("the server is a node of a cluster", _SAY_CLUSTER),
    "ASK": ("the server is a node of a cluster", _SAY_CLUSTER),
    "CROSSSLOT": ("the server is a node of a cluster", _SAY_CLUSTER),
    "MISCONF": ("the server cannot save its data and refuses to write", "Look at the server's log and disk"),
    "NOREPLICAS": ("the server has too few replicas in reach and refuses to write", "It is asked again"),
    "BUSY": ("the server is busy with a script of somebody", "It is asked again; SCRIPT KILL on the server ends it"),
    "UNBLOCKED": ("the server became a replica", "It is asked again"),
    "NOAUTH": ("the server wants a password", f"Check the user and the password in {_LOGIN}"),
    "WRONGPASS": ("the server refuses the user or the password", f"Check them in {_LOGIN}"),
    "WRONGTYPE": ("another program has written to a key of a queue", "`workfleet doctor` names the key"),
    "NOPERM": (
        "the user lacks a right on the server",
        "Give its access list what the documentation of the store names",
    ),
}
_MISTAKEN = {
    "DB index": ("the server has no such database", "Correct the number at the end of its URL"),
    "SELECT is not allowed in cluster mode": ("a cluster has no database but 0", "Leave the number in its URL out"),
    "cluster support disabled": ("it is no cluster", "Write redis:// instead of redis+cluster://"),
    "unknown command 'SENTINEL'": ("what answers there is no sentinel", "Give the sentinels' port, mostly 26379"),
}
"""What a server says of a URL that means another one."""
_MOVING = frozenset({"ASK", "TRYAGAIN"})
_MOVED = ("the keys of this app are at another node of the cluster", "It is looked up again")
_BEING_MOVED = ("the cluster is moving the keys of this app to another node", "It is asked again until they are there")
_NO_RIGHT = re.compile(r"(?:NOPERM|ACL failure in script:) (?:ACL failure in script: )?(.*?)(?: script: .*)?$")
_FOREIGN = "Script attempted to access a non local key"
_CODES = {
    "NoPermissionError": "NOPERM", "BusyLoadingError": "LOADING", "MasterDownError": "MASTERDOWN",
    "ClusterDownError": "CLUSTERDOWN",
}  # fmt: skip
"""Which code redis-py's exceptions stand for."""
_GONE = frozenset({"READONLY", "UNBLOCKED", "NOAUTH", "MASTERDOWN", "MOVED", "ASK", "CLUSTERDOWN"})
"""After these another server may be the right one: the connection is made anew."""


_PASSING = frozenset("LOADING MASTERDOWN CLUSTERDOWN TRYAGAIN READONLY UNBLOCKED BUSY NOREPLICAS OOM MISCONF".split())
"""These end by themselves, or when somebody makes room: nothing of ours has to change."""


def code_of(said: str) -> str:
    """The code at the front of a server's error, or within that of a script."""
    if _FOREIGN in said:
        return "TRYAGAIN"
    if "ACL failure in script" in said:
        return "NOPERM"
    found = _WRAPPED.search(said)
    return found[1] if found else said.partition(" ")[0]


def wants_new_connection(code: str) -> bool:
    """Whether the server that said so is not, or no longer, the one to talk to."""
    return code in _GONE


def refused(store: str, said: str) -> StoreUnavailable:
    """The server answered a command with an error."""
    code = code_of(said)
    if code in _MOVING or (code == "MOVED" and "+cluster:" in store):
        reason, advice = _MOVED if code == "MOVED" else _BEING_MOVED
        return StoreUnavailable(store, f"{reason} ({code})", advice, passing=code in _PASSING)
    if code in _MEANS:
        reason, advice = _MEANS[code]
        which = _NO_RIGHT.search(said) if code == "NOPERM" else None
        told = f"{code}: {which[1].rstrip('.')}" if which else code
        return StoreUnavailable(store, f"{reason} ({told})", advice, passing=code in _PASSING)
    if "max number of clients" in said:
        return StoreUnavailable(
            store, "the server has as many clients as it allows", "Raise its maxclients", passing=True
        )
    return StoreUnavailable(store, f"the server refused a command: {said}")


def lost(store: str, error: Exception | None) -> StoreUnavailable:
    """The connection ended while calls were waiting: what was sent may have happened."""
    return StoreUnavailable(store, f"the connection was lost ({error or 'closed by the server'})", passing=True)


def silent(store: str, seconds: float) -> StoreUnavailable:
    """The server holds the connection and says nothing."""
    # A server that speaks no TLS waits for the end of what it takes for a long line.
    advice = "Check that it speaks TLS at that port" if store.startswith(_WITH_TLS) else ""
    return StoreUnavailable(store, f"it did not answer within {seconds:g} s", advice, passing=True)


def closed(store: str) -> StoreUnavailable:
    """A call after `close()`."""
    return StoreUnavailable(store, "it was closed by this process")


def unreachable(store: str, error: Exception, *secrets: str | None) -> StoreUnavailable:
    """No connection can be made. None of the secrets is repeated."""
    said = str(error).rstrip(".") or type(error).__name__
    for secret in secrets:
        if secret:
            said = said.replace(secret, "***")
    code = _code_in_handshake(error)
    if code in _MEANS:
        return refused(store, f"{code} {said}")
    if code_of(said) in _MEANS or "max number of clients" in said:
        return refused(store, said)
    for words, (reason, advice) in _MISTAKEN.items():
        if words in said:
            # A sentinel may be the only wrong one of several, and another is asked next.
            return StoreUnavailable(store, f"{reason} ({said})", advice, passing="sentinel" in reason)
    if _UNTRUSTED in said:
        advice = "Name its authority in the URL: ?ssl_ca_certs=/path/ca.pem"
        return StoreUnavailable(store, f"its certificate is not trusted ({said})", advice)
    advice = "Check its URL, or REDIS_HOST and REDIS_PORT, and that the server runs"
    if "reset by peer" in said and not store.startswith(_WITH_TLS):
        advice += "; where it wants TLS, write rediss://"
    return StoreUnavailable(store, f"it cannot be reached ({said})", advice, passing=True)


def unreadable(store: str, option: str, path: str, why: str) -> StoreUnavailable:
    """A file that the URL names for TLS cannot be read."""
    return StoreUnavailable(store, f"its {option}, {path}, cannot be read ({why})", "Correct it in its URL")


def _code_in_handshake(error: BaseException) -> str:
    """redis-py turns the codes of the handshake into exceptions of its own, and knows more than one way to refuse.
    At a unix socket they are causes of others."""
    kind = type(error).__name__
    if kind in ("AuthenticationError", "AuthenticationWrongNumberOfArgsError"):
        return "NOAUTH" if getattr(error, "status_code", None) == "NOAUTH" else "WRONGPASS"
    return _CODES.get(kind) or (_code_in_handshake(error.__cause__) if error.__cause__ is not None else "")
