"""The data types that all stages share: frozen where possible, typed, without torch."""
