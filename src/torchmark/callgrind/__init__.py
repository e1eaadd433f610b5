"""Counting instructions with callgrind, and reading what it wrote."""
