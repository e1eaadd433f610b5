"""What runs inside an environment under test: the timed loop, the clocks and the sampling.

It uses the standard library and torch, nothing else, in syntax that Python 3.8 reads, because
that environment is somebody else's and may be old. The control side (`torchmark`) imports it
for measurements in its own process; it never imports the control side.
"""
