"""Stacks that several tests look at, and the ones that hypothesis draws."""

from __future__ import annotations

from hypothesis import strategies as st

from torchmark.flame.stacks import Stack

LOOP = [
    Stack(("main", "run (loop.py:3)"), 10),
    Stack(("main", "run (loop.py:3)", "add (libtorch.so)"), 50),
    Stack(("main", "run (loop.py:3)", "add (libtorch.so)", "empty_cpu (libtorch.so)"), 20),
    Stack(("main", "run (loop.py:3)", "wrap (tensor.py:9)"), 15),
    Stack(("main", "leave"), 5),
]
"""100 in all: run has 95, add 70, wrap 15."""

HOSTILE = [
    '</script><script>console.log("ran")</script>',
    "]]><script>console.log('ran')</script>",
    '<img src="x" onerror="console.log(1)">',
    'a" onmouseover="console.log(2)',
    "javascript:console.log(3)",
    "</title></svg><h1>out</h1>",
    "&lt;b&gt; &amp; <!-- ${1} {{2}}",
    "at::Tensor::operator<(at::Tensor const&) ü 日本 '\"",
]


def names() -> st.SearchStrategy[str]:
    """Anything that a frame may be called: no separators, and something."""
    return st.text(st.characters(exclude_characters=";\r\n"), min_size=1, max_size=4)


def stacks(max_size: int = 8) -> st.SearchStrategy[list[Stack]]:
    """Few different names, so that stacks meet in the tree."""
    frames = st.lists(st.sampled_from("abcd") | names(), min_size=1, max_size=4)
    return st.lists(st.builds(Stack, frames.map(tuple), st.integers(0, 10**6)), max_size=max_size)
