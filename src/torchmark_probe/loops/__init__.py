"""Timed and counted loops: clocks, blocks, statements."""
