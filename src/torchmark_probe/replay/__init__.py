"""Recorded operator calls, made and run again."""
