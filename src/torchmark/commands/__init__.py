"""What the commands do, callable from Python: each plans, measures, stores and returns a run."""
