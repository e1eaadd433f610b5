"""How Sphinx builds the site: `make docs`."""

import sys
from pathlib import Path

import torchmark

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

project = "torchmark"
author = "The torchmark developers"
version = release = torchmark.__version__
copyright = f"2026, {author}"  # noqa: A001 - Sphinx's name

extensions = ["myst_parser", "sphinx.ext.autodoc", "command_help", "typesetting"]
exclude_patterns = ["_build", "_ext", "_static"]

myst_heading_anchors = 3

autodoc_member_order = "bysource"
autodoc_typehints = "none"
default_role = "code"  # docstrings mark code with single backticks

html_theme = "furo"
html_title = f"torchmark {release}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_js_files = ["site.js"]
html_copy_source = False
html_show_sourcelink = False
