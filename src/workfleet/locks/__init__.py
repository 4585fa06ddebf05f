"""Distributed locks: taken in the store, with fences, renewed while their body runs."""
