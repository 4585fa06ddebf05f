"""Observation: logs, metrics and traces, as subscribers of the events. Nothing here decides anything about a job."""
