"""What keeps things running: services and groups, the board of claims and its keeper, ties between processes."""
