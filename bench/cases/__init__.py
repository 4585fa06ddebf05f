"""Benches, one a module: each has a BENCH."""
