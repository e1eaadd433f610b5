"""The nouns that are handed from stage to stage: frozen where they can be, typed, without torch."""
