"""Draw stacks: flame graphs and their differences. The functions take text and return text.

Stacks come from py-spy (`stacks.parse_stacks`) or from callgrind (`counted.average_stacks`). They
become an SVG or a PNG file (`svg`), or folded text, a file for speedscope or a tree (`stacks`).
Nothing here starts a process or imports torch.
"""
