"""A model over sizes and job configurations, measured in one process."""
