"""What callgrind wrote: read exactly, and summed by function."""
