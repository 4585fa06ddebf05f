"""Measurements beside other programs, each in one run and alternating, so that the machine's mood hits both alike."""
