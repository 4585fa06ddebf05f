"""The small process that starts workers, keeps their leases, replaces them, and alone decides at signals.

It runs no user code and imports little: nothing that a job does can hold it up."""
