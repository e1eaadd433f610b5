"""PNG pictures, drawn by the real vl-convert."""

from __future__ import annotations

import struct
import sys

import pytest

from tests.flame.samples import HOSTILE, LOOP
from torchmark.errors import MissingToolError
from torchmark.flame.stacks import Stack
from torchmark.flame.svg import difference_svg, flame_svg, png_of


def size_of(png: bytes) -> tuple[int, int]:
    assert png.startswith(b"\x89PNG\r\n\x1a\n")
    width, height = struct.unpack(">II", png[16:24])
    return width, height


def test_the_picture_is_as_large_as_the_svg() -> None:
    svg = flame_svg(LOOP, title="torch.add(x, y)", unit="samples")
    width, height = size_of(png_of(svg))
    assert width == 1200
    assert f'height="{height}"' in svg


def test_titles_and_labels_are_drawn() -> None:
    """Without text the same picture is a smaller file."""
    with_text = flame_svg([Stack(("outer", "at::native::add"), 9)], title="A title", unit="samples")
    without = with_text.replace(">at::native::add</text>", "></text>")
    assert without != with_text
    assert len(png_of(with_text)) > len(png_of(without))
    untitled = with_text.replace(">A title</text>", "></text>")
    assert untitled != with_text
    assert len(png_of(with_text)) > len(png_of(untitled))


def test_differences_and_hostile_names_are_drawn_too() -> None:
    drawn = [Stack((name,), 5) for name in HOSTILE]
    assert size_of(png_of(difference_svg(LOOP, drawn, title=HOSTILE[0], unit="samples")))[0] == 1200


def test_without_vl_convert_the_message_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    with pytest.raises(MissingToolError, match=r"pip install 'torchmark\[report\]'"):
        png_of(flame_svg(LOOP, title="t", unit="samples"))
