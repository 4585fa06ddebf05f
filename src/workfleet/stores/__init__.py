"""The stores: memory (the reference), SQLite (the embedded default), Redis. Each is a `Store`; none imports another."""
