"""Work orders become records: what touches torch, threads, processes and the machine."""
