"""Read callgrind's output files exactly, and add up their costs by function."""
