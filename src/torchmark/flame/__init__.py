"""Pictures of stacks: flame graphs and their differences, as text in and text out.

Stacks come from py-spy (`stacks.parse_stacks`) or from callgrind (`counted.average_stacks`); they
become an SVG or a PNG (`svg`), folded text, a file for speedscope or a tree (`stacks`). Nothing
here starts a process or imports torch.
"""
