"""Two environments side by side: process pairs, replicates, counts in several layouts."""
