"""A model over input scales and job configs: what people write, and its cases."""
