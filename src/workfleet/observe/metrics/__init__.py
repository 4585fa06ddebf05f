"""Metrics: a registry fed by the events and by user code, written to a store of its own, and read back by time."""
