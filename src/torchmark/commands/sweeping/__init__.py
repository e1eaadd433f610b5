"""A sweep, carried out."""
