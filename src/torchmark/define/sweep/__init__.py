"""Sweeps of a model over input scales and job configs: specs and their cases."""
