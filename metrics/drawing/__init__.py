"""Operators drawn at random, as statements that can do a known share of work more."""
