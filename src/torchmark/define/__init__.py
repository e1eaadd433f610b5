"""Turns what users write into cases: definitions, suites, sweeps, recorded calls and fuzzers."""
