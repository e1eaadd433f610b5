"""Pure functions of records: they do not read the clock, import torch or print."""
