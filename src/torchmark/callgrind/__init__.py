"""What callgrind wrote: read exactly, summed by function, and turned into other tools' formats."""
