"""Ways to count the operator calls of a training step, for the metrics of capture."""
