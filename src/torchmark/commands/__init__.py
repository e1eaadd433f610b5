"""The commands as Python functions: each plans a run, measures it, stores it and returns it."""
