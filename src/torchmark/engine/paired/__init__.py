"""Compares two environments: process pairs, replicates, counts in several layouts."""
