"""The algebra of counts is torch's, and its printed text is torch's."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.benchmark.utils.valgrind_wrapper import timer_interface as theirs

from torchmark.errors import InvalidArgumentError
from torchmark.model.function_counts import FunctionCount, FunctionCounts, counts_of

if TYPE_CHECKING:
    from collections.abc import Callable

NAMES = (
    "Objects/dictobject.c:lookdict_unicode",
    "Objects/stringlib/eq.h:lookdict_unicode",
    "/build/Objects/dictobject.c:lookdict_unicode_nodummy [/usr/lib/libpython3.8.so]",
    "Python/ceval.c:_PyEval_EvalFrameDefault",
    "???:at::native::add(at::Tensor const&, at::Tensor const&) [/site-packages/libtorch_cpu.so]",
    "a.c:f",
    "a.c:g",
    "b.c:f",
    "build/../" + "long/" * 40 + "file.cpp:function",
)

Pair = tuple[FunctionCounts, Any]

entries = st.lists(st.tuples(st.integers(-(10**12), 10**12), st.sampled_from(NAMES)), max_size=30)


@st.composite
def pairs(draw: st.DrawFn, *, inclusive: bool | None = None) -> Pair:
    """The same counts, ours and torch's."""
    data = draw(entries)
    kind = draw(st.booleans()) if inclusive is None else inclusive
    truncated, width = draw(st.booleans()), draw(st.sampled_from([None, 60, 160]))
    return (
        FunctionCounts(tuple(FunctionCount(*entry) for entry in data), kind, truncated, width),
        theirs.FunctionCounts(
            tuple(theirs.FunctionCount(*entry) for entry in data), kind, truncated, width
        ),
    )


def assert_alike(ours: FunctionCounts, torchs: Any) -> None:
    assert [tuple(entry) for entry in ours] == [tuple(entry) for entry in torchs]
    assert ours.inclusive == torchs.inclusive
    assert ours.truncate_rows == torchs.truncate_rows
    assert len(ours) == len(torchs)
    assert ours.sum() == torchs.sum()
    # The first line is the object's own: the module and the address differ, and nothing else.
    assert repr(ours).splitlines()[1:] == repr(torchs).splitlines()[1:]


@given(pairs())
def test_counts_print_as_torch_prints_them(pair: Pair) -> None:
    assert_alike(*pair)
    assert repr(pair[0]).startswith("<torchmark.model.function_counts.FunctionCounts object at 0x")


@given(st.booleans().flatmap(lambda kind: st.tuples(*[pairs(inclusive=kind)] * 2)))
def test_sums_and_differences_are_torchs(two: tuple[Pair, Pair]) -> None:
    (ours, torchs), (our_other, torch_other) = two
    assert_alike(ours + our_other, torchs + torch_other)
    assert_alike(ours - our_other, torchs - torch_other)


@given(pairs(), st.one_of(st.integers(-5, 5), st.floats(-1e3, 1e3)))
def test_products_are_torchs(pair: Pair, factor: float) -> None:
    ours, torchs = pair
    assert_alike(ours * factor, torchs * factor)


@given(pairs(), st.sampled_from([lambda name: "f" in name, lambda name: False, str.isascii]))
def test_filters_are_torchs(pair: Pair, keep: Callable[[str], bool]) -> None:
    ours, torchs = pair
    assert_alike(ours.filter(keep), torchs.filter(keep))


@given(pairs(), st.sampled_from([str, str.upper, lambda name: name[:2], lambda _: "all"]))
def test_transforms_are_torchs(pair: Pair, rename: Callable[[str], str]) -> None:
    ours, torchs = pair
    assert_alike(ours.transform(rename), torchs.transform(rename))


@given(pairs(), st.slices(30))
def test_slices_are_torchs(pair: Pair, part: slice) -> None:
    ours, torchs = pair
    assert_alike(ours[part], torchs[part])


@given(pairs(), st.integers(-40, 40))
def test_single_entries_are_torchs(pair: Pair, index: int) -> None:
    ours, torchs = pair
    if -len(ours) <= index < len(ours):
        assert tuple(ours[index]) == tuple(torchs[index])
    else:
        with pytest.raises(IndexError):
            ours[index]


@given(pairs())
def test_denoise_is_torchs_for_the_pythons_that_torch_knows(pair: Pair) -> None:
    ours, torchs = pair
    assert_alike(ours.denoise(), torchs.denoise())


@given(pairs(inclusive=False))
def test_what_is_taken_away_and_added_again_changes_nothing(pair: Pair) -> None:
    ours, _ = pair
    assert (ours - ours) == FunctionCounts((), inclusive=False)
    assert (ours - ours.denoise()) + ours.denoise() == ours + FunctionCounts((), inclusive=False)


@pytest.mark.parametrize(
    "symbol",
    [
        "lookdict_unicode_nodummy",
        "lookdict_unicode.lto_priv.0",
        "_Py_dict_lookup'2",
        "_Py_dict_lookup_threadsafe",
        "unicodekeys_lookup_unicode",
        "dictkeys_stringlookup",
        "_PyDictKeys_StringLookupAndVersion",
    ],
)
@pytest.mark.parametrize("place", ["/src/Objects/dictobject.c", "???"])
def test_denoise_takes_away_lookups_of_names_in_every_python(symbol: str, place: str) -> None:
    counts = counts_of([(5, f"{place}:{symbol} [libpython.so]"), (3, "a.c:f")], inclusive=False)
    assert counts.denoise().sum() == 3


@pytest.mark.parametrize(
    "name",
    [
        "malloc/malloc.c:_int_malloc [libc.so.6]",
        "???:_int_free [libc.so.6]",
        "???:malloc_consolidate [libc.so.6]",
        "Objects/typeobject.c:find_name_in_mro",
        "Objects/dictobject.c:lookdict_split",
        "???:space::lookdict_unicode [lib.so]",
    ],
)
def test_denoise_takes_away_nothing_else(name: str) -> None:
    assert counts_of([(5, name)], inclusive=False).denoise().sum() == 5


@pytest.mark.parametrize(
    "symbol",
    [
        "lookdict",
        "lookdict_split",
        "lookdict_unicode_nodummy",
        "lookdict_unicode.lto_priv.0",
        "lookdict_index",
        "_Py_dict_lookup",
        "_Py_dict_lookup'2",
        "_Py_dict_lookup_threadsafe",
        "_Py_dict_lookup_threadsafe_stackref",
        "unicodekeys_lookup_unicode",
        "unicodekeys_lookup_generic",
        "unicodekeys_lookup_split",
        "unicodekeys_lookup_unicode_threadsafe",
        "dictkeys_generic_lookup",
        "dictkeys_generic_lookup_threadsafe",
        "dictkeys_stringlookup",
        "_PyDictKeys_StringLookup",
        "_PyDictKeys_StringLookupAndVersion",
        "find_empty_slot.constprop.0",
        "find_name_in_mro",
        "assign_version_tag.isra.0",
    ],
)
@pytest.mark.parametrize("place", ["/src/Objects/dictobject.c", "???", "./Include/object.h"])
@pytest.mark.parametrize("library", ["", " [/usr/lib/libpython3.13.so.1.0]"])
def test_lookups_that_depend_on_addresses_belong_to_the_layout(
    symbol: str, place: str, library: str
) -> None:
    counts = counts_of([(5, f"{place}:{symbol}{library}"), (3, "a.c:f")], inclusive=False)
    assert counts.without_layout().sum() == 3


@pytest.mark.parametrize(
    "symbol",
    [
        "_int_malloc",
        "_int_free'2",
        "_int_free_merge_chunk",
        "_int_memalign.constprop.0",
        "unlink_chunk.constprop.0",
        "malloc_consolidate",
        "sysmalloc_mmap",
    ],
)
@pytest.mark.parametrize("place", ["./malloc/./malloc/malloc.c", "???"])
def test_the_bookkeeping_of_the_c_library_belongs_to_the_layout(symbol: str, place: str) -> None:
    counts = counts_of([(5, f"{place}:{symbol} [libc.so.6]"), (3, "a.c:f")], inclusive=False)
    assert counts.without_layout().sum() == 3


@pytest.mark.parametrize(
    "name",
    [
        "Objects/typeobject.c:_PyType_Lookup",
        "Objects/obmalloc.c:_PyObject_Malloc",
        "???:malloc [libc.so.6]",
        "???:posix_memalign [libc.so.6]",
        "???:free [libc.so.6]",
        "Objects/dictobject.c:insertdict",
        "Objects/dictobject.c:PyDict_GetItem",
        "???:space::lookdict [lib.so]",
        "x.cpp:my_lookdict",
    ],
)
def test_what_is_neither_does_not_belong_to_the_layout(name: str) -> None:
    assert counts_of([(5, name)], inclusive=False).without_layout().sum() == 5


def test_inclusive_and_exclusive_counts_do_not_mix() -> None:
    with pytest.raises(InvalidArgumentError, match="stats"):
        FunctionCounts((), inclusive=True) + FunctionCounts((), inclusive=False)


@pytest.mark.parametrize("operate", [lambda c: c + 1, lambda c: c - "x", lambda c: c * "x"])
def test_counts_combine_with_counts_and_numbers_only(operate: Callable[[Any], object]) -> None:
    with pytest.raises(TypeError):
        operate(FunctionCounts((), inclusive=False))


def test_equal_counts_are_equal_and_hash_alike() -> None:
    one, two = (counts_of([(1, "a"), (2, "b")], inclusive=False) for _ in range(2))
    assert one == two
    assert hash(one) == hash(two)


def test_the_line_is_as_wide_as_torch_prints_tensors(monkeypatch: pytest.MonkeyPatch) -> None:
    counts = counts_of([(1, "x" * 300)], inclusive=True)
    monkeypatch.setattr(torch._tensor_str.PRINT_OPTS, "linewidth", 120)
    assert max(map(len, repr(counts).splitlines()[1:])) == 120


def test_without_torch_the_line_has_80_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "torch")
    counts = counts_of([(1, "x" * 300)], inclusive=True)
    assert max(map(len, repr(counts).splitlines()[1:])) == 80
