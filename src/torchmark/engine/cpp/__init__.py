"""C++ statements: text becomes a shared object that the probe loads."""
