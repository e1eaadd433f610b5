"""The scripts of seed 003."""
