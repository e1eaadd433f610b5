"""Loops that are timed or counted: clocks, blocks, statements."""
