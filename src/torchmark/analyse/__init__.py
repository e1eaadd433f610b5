"""Pure functions of records: no clock, no torch, no printing."""
