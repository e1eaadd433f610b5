"""A plan of cases becomes results: which core does what, what is built before, and what failed."""
