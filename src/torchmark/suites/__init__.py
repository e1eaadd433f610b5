"""The definitions that ship with torchmark."""
