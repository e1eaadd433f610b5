"""One module for each kind of run. It turns a run into the view that every format renders."""
