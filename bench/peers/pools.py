"""Process pools. Each is asked in the way of its documentation that is fastest for small calls, each sent on its own:
`map` without chunks, and for Pebble `submit`, which was faster than its `map`. Batches would measure another thing."""

from __future__ import annotations

from ..environments import Pip
from ..peer import Peer
from ..pooled import POOL, calls

PEERS = (
    Peer(
        "loky",
        "loky 3.7.0, `get_reusable_executor(max_workers=2, timeout=None)`, `map`",
        Pip("loky", ("loky==3.7.0", "cloudpickle==3.1.3")),
        {POOL: calls("pool_loky", 0.15)},
    ),
    Peer(
        "pebble",
        "Pebble 5.2.3, `ProcessPool(max_workers=2)`, all calls submitted at once",
        Pip("pebble", ("pebble==5.2.3",)),
        {POOL: calls("pool_pebble", 0.15)},
    ),
    Peer(
        "aiomultiprocess",
        "aiomultiprocess 0.9.1, `Pool(2)` with uvloop in the parent and in the children, `map`",
        Pip("aiomultiprocess", ("aiomultiprocess==0.9.1", "uvloop==0.23.0")),
        {POOL: calls("pool_aiomultiprocess", 0.5)},
    ),
)
