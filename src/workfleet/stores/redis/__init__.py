"""Redis: connections for applications now, the store with a later release. The only place that imports redis-py."""
