"""Recreates recorded operator calls and runs them."""
