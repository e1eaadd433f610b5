"""One module a kind of run: each turns a run into the view that every format renders."""
