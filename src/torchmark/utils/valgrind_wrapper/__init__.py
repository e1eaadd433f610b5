"""Where torch has `timer_interface`; see `torchmark.utils`."""
