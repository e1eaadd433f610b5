"""What people write becomes cases: definitions, suites, sweeps, recorded calls and fuzzers."""
