"""One renderer for each format. It turns a view into text and does not know kinds of runs."""
