"""A/B: two environments, or two statements, compared so that the answer can be believed."""
