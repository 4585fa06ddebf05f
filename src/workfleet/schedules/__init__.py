"""Schedules: declaring them, finding what is due, firing each slot once."""
