"""Peers, one program a module: each has PEERS.

A new peer is one module here: its environment with pinned packages (`Pip` or `Npm`), and for every bench that it takes
part in a subject, usually `each_turn` of a function that starts the peer's programs (in `bench/programs/`) and gives
back the figure which that bench is about. A new bench is one module in `bench/cases/`."""
