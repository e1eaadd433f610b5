"""`python -m torchmark` is the `torchmark` command."""

from torchmark.cli import main

main()
