"""The control side of a zygote: launching it, talking to it, ending it."""
