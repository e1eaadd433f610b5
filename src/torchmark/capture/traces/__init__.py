"""Traces as files: written here by the recorder and the importers, read and checked."""
