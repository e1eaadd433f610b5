"""Measures a model over sizes and job configs in one process."""
