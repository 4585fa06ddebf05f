"""Process pools: supervised children that run CPU work and cannot take the worker down.

Owns children, their wire, calls, limits and restarts. Knows no job, queue, store or container: what a child runs is
made by a factory that it is told by name. Import from the submodules: a child imports this package and must start fast.
"""
