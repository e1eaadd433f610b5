"""One file a format. Every renderer takes the same `Table`s and returns text."""
