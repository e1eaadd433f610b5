"""Pictures of stacks: flame graphs and their differences, as text in and text out.

Stacks come from py-spy (`stacks.parsed`) or from callgrind (`counted.from_profile`); what is made
of them is an SVG (`svg`), a PNG of that (`png`), folded text or a file for speedscope. Nothing here
starts a process or imports torch.
"""
