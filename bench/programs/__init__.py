"""What the benches start as processes of their own, ours and the peers'. Nothing here imports the bench itself."""
