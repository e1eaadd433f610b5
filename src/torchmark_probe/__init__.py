"""Runs inside an environment under test: the timed loop, the clocks and the sampling.

It uses only the standard library and torch, in Python 3.8 syntax, because that environment belongs
to the user and may be old. The control side (`torchmark`) also imports it for measurements in its
own process; it never imports the control side.
"""
