"""One renderer a format. Each turns a view into text, and knows no kind of run."""
