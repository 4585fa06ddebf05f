"""The command line. `entry` dispatches: `probe` needs the standard library only, everything else is in `main`."""
