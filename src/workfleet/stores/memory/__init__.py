"""The store in memory: the obvious reference for what a store is, and the test double."""
