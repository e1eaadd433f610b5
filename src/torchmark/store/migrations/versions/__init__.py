"""A revision for each version of the store, in which `upgrade` makes it out of the one before."""
