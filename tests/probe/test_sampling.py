"""Sampling on made-up time: loops and a reference loop that follow a script."""

from __future__ import annotations

import math
import random
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fakes import ScriptedLoop, ScriptedReferenceLoop
from torchmark_probe.loops.clocks import ClockFacts
from torchmark_probe.loops.intervals import median, median_interval, result_interval
from torchmark_probe.loops.sampling import (
    BLOCK_SECONDS,
    MAX_NUMBER,
    MIN_SAMPLES,
    Limits,
    ReferenceLoop,
    Sampling,
    block_size,
    sample,
)

if TYPE_CHECKING:
    from collections.abc import Container

    from torchmark_probe.loops.snippets import Block

GOOD_CLOCK = ClockFacts(resolution=1e-9, cost=5e-8)


class NamedLoop(ScriptedLoop):
    """Writes its name into a shared list whenever it runs."""

    def __init__(self, name: str, order: list[str]) -> None:
        super().__init__(lambda _: 1e-4)
        self._name = name
        self._order = order

    def run(self, number: int) -> Block:
        self._order.append(self._name)
        return super().run(number)


def noisy(seed: int, seconds: float, spread: float) -> ScriptedLoop:
    draw = random.Random(seed)
    return ScriptedLoop(lambda _: seconds * abs(draw.gauss(1, spread)))


def take(
    *loops: ScriptedLoop,
    precision: float = 0.01,
    least: float = 0.2,
    most: float = 2.0,
    reference: ReferenceLoop | None = None,
    clock: ClockFacts = GOOD_CLOCK,
) -> list[Sampling]:
    pace = ScriptedReferenceLoop() if reference is None else reference
    return sample(loops, Limits(precision, least, most), random.Random(0), clock, pace)


@pytest.mark.parametrize("seconds", [3e-9, 1e-6, 2e-5])
def test_a_block_is_as_long_as_it_should_be(seconds: float) -> None:
    (sampling,) = take(ScriptedLoop(lambda _: seconds))
    assert median(sampling.wall) == pytest.approx(BLOCK_SECONDS, rel=0.1)


def test_a_coarse_clock_gets_longer_blocks() -> None:
    (sampling,) = take(ScriptedLoop(lambda _: 1e-6), clock=ClockFacts(1e-5, 1e-6))
    assert median(sampling.wall) == pytest.approx(1e-2, rel=0.1)


def test_a_long_statement_gets_one_run_a_block() -> None:
    (sampling,) = take(ScriptedLoop(lambda _: 0.01))
    assert sampling.number == 1
    assert len(sampling.wall) >= 20


def test_a_statement_longer_than_the_time_allows_is_still_measured() -> None:
    loop = ScriptedLoop(lambda _: 60.0)
    (sampling,) = take(loop)
    assert (sampling.number, len(sampling.wall)) == (1, 1)
    assert len(loop.numbers) == 2, "the cold run and the sample"


def test_steady_samples_stop_at_the_least_time() -> None:
    (sampling,) = take(ScriptedLoop(lambda _: 1e-6))
    assert 0.2 <= sum(sampling.wall) < 0.21


def test_the_least_time_never_gives_fewer_samples_than_a_median_needs() -> None:
    (sampling,) = take(ScriptedLoop(lambda _: 0.01), least=0.001)
    assert len(sampling.wall) >= MIN_SAMPLES


@given(st.integers(0, 50))
def test_noisy_samples_go_on_until_the_interval_is_as_narrow_as_asked(seed: int) -> None:
    (sampling,) = take(noisy(seed, 1e-4, 0.3), precision=0.02, least=0.01, most=100.0)
    spread = 1.25 * 0.3 / math.sqrt(len(sampling.wall))
    assert 1.5 * spread < 0.02
    assert len(sampling.wall) > 300


def test_what_never_becomes_precise_ends_at_the_most_time() -> None:
    (sampling,) = take(noisy(1, 1e-4, 0.3), precision=1e-6)
    assert 2.0 <= sum(sampling.wall) < 2.02


def test_a_clock_that_stands_still_during_blocks_does_not_hang() -> None:
    (sampling,) = take(ScriptedLoop(lambda _: 0.0))
    assert sampling.number == MAX_NUMBER
    assert len(sampling.wall) == MIN_SAMPLES


def test_loops_take_turns_in_random_order_and_get_as_many_blocks() -> None:
    order: list[str] = []
    a, b, c = take(*(NamedLoop(name, order) for name in "abc"))
    assert len(a.wall) == len(b.wall) == len(c.wall)
    rounds = [tuple(order[i : i + 3]) for i in range(len(order) - 3 * len(a.wall), len(order), 3)]
    assert all(sorted(turn) == ["a", "b", "c"] for turn in rounds)
    assert len(set(rounds)) == 6, "every order occurs"


def test_the_same_seed_gives_the_same_order() -> None:
    def order() -> list[str]:
        seen: list[str] = []
        take(*(NamedLoop(name, seen) for name in "abc"), least=0.01)
        return seen

    assert order() == order()


def test_blocks_beside_a_slow_reference_loop_do_not_count() -> None:
    # Beats 100 to 199 are slow: they surround blocks 99 to 199.
    reference = ScriptedReferenceLoop(lambda i: 2.0 if 100 <= i < 200 else 1.0)
    slow = range(99, 200)
    (sampling,) = take(ScriptedLoop(lambda _: 1e-4), reference=reference)
    disturbed = [index for index, quiet in enumerate(sampling.quiet()) if not quiet]
    assert disturbed == list(slow)
    assert set(sampling.counted()).isdisjoint(slow)


def test_whether_a_block_counts_does_not_depend_on_its_own_time() -> None:
    draw = random.Random(5)
    (sampling,) = take(ScriptedLoop(lambda _: 1e-4 * draw.choice([1, 1, 3])), precision=1.0)
    assert all(sampling.quiet())
    assert len(sampling.counted()) == len(sampling.wall)


def test_a_disturbed_machine_is_waited_for() -> None:
    """The first second is disturbed and slow; the quiet samples that follow give the median."""
    reference = ScriptedReferenceLoop(lambda i: 2.0 if i < 3000 else 1.0)
    reference.quiet_pace = 1.0
    (sampling,) = take(
        ScriptedLoop(lambda i: 1.9e-4 if i < 3010 else 1e-4), reference=reference, most=5.0
    )
    counted = [sampling.wall[i] / sampling.number for i in sampling.counted()]
    assert median(counted) == pytest.approx(1e-4)


def test_where_all_samples_are_equally_disturbed_all_count() -> None:
    reference = ScriptedReferenceLoop(lambda _: 2.0)
    reference.quiet_pace = 1.0
    (sampling,) = take(ScriptedLoop(lambda _: 1e-4), reference=reference)
    assert not any(sampling.quiet())
    assert sampling.counted() == tuple(range(len(sampling.wall)))
    assert sum(sampling.wall) >= 2.0, "it waited as long as it was allowed"


def paced(*pace: float) -> Sampling:
    """Blocks of random length around which the reference loop had these paces; quiet is 1."""
    draw = random.Random(7)
    wall = tuple(draw.uniform(1e-4, 3e-4) for _ in pace)
    return Sampling(1, wall, wall, pace, 1.0, 1e-9)


def test_where_nothing_is_quiet_the_least_disturbed_quarter_counts() -> None:
    calm, busy = (1.5, 1.4, 1.6) * 10, (1.9, 2.5, 30.0) * 30
    assert paced(*busy, *calm).counted() == tuple(range(90, 120))


def test_a_few_disturbed_samples_are_not_thinned_out_to_nothing() -> None:
    assert len(paced(2.0, 2.1, 2.2, 2.3, 2.4, 2.5, 2.6, 2.7).counted()) == 5
    assert len(paced(2.0, 2.1, 2.2).counted()) == 3


def test_the_slowdown_is_that_of_the_samples_that_count() -> None:
    assert paced(*[1.1] * 5, *[3.0] * 95).slowdown() == 1.0
    assert paced(*[1.1] * 4, *[1.6] * 21, *[3.0] * 75).slowdown() == 1.6


def test_the_disturbed_share_is_that_of_all_samples() -> None:
    assert paced(*[1.0] * 30, *[2.0] * 90).disturbed_share() == 0.75


def test_a_core_is_unsteady_where_its_pace_falls_behind_around_what_counts() -> None:
    assert paced(*[1.0] * 100).unsteadiness() == 0.0
    assert paced(*[1.0] * 85, *[1.2] * 15).unsteadiness() == pytest.approx(0.2)
    assert paced(*[1.0] * 95, *[1.2] * 5).unsteadiness() == 0.0, "one in ten may"
    assert paced(*[1.1] * 50, *[3.0] * 50).unsteadiness() == pytest.approx(0.1), "what counts alone"
    assert paced(*[3.0] * 50).unsteadiness() == pytest.approx(0.25), "the slowdown has the rest"


def test_results_of_an_unsteady_core_have_wider_intervals() -> None:
    def half_width(unsteady: float) -> float:
        low, high = result_interval(
            [1.0] * 100, sample_seconds=2e-3, disturbed=0.0, unsteady=unsteady
        )
        return (high - low) / 2

    assert half_width(0.0) == pytest.approx(0.01)
    assert half_width(0.1) == pytest.approx(0.04)


def test_the_reference_loop_keeps_the_best_pace_it_ever_had() -> None:
    reference = ReferenceLoop()
    reference.learn([2.0] * 50)
    assert reference.quiet_pace == 2.0
    reference.learn([1.0] * 50 + [9.0] * 50)
    assert reference.quiet_pace == 1.0
    reference.learn([3.0] * 50)
    assert reference.quiet_pace == 1.0


def test_a_single_freak_run_is_not_the_pace() -> None:
    reference = ReferenceLoop()
    reference.learn([0.1] + [1.0] * 99)
    assert reference.quiet_pace == 1.0


def test_a_real_reference_loop_takes_time() -> None:
    assert ReferenceLoop().run() > 0


class Paused(ScriptedLoop):
    """The machine stands still during some of its blocks."""

    def __init__(self, seconds: float, pause: float, paused: Container[int]) -> None:
        super().__init__(lambda _: seconds)
        self._pause = pause
        self._paused = paused

    def run(self, number: int) -> Block:
        block = super().run(number)
        pause = self._pause if len(self.numbers) - 1 in self._paused else 0.0
        return type(block)(block.wall + pause, block.cpu)


@pytest.mark.parametrize("pause", [4e-3, 0.05, 0.5])
@pytest.mark.parametrize("hiccup", range(12))
def test_a_pause_of_the_machine_while_the_block_is_sized_does_not_shrink_it(
    hiccup: int, pause: float
) -> None:
    """Neither where it is checked by the samples nor where the size is all that is asked for."""
    (sampling,) = take(Paused(2e-6, pause, [hiccup]))
    assert sampling.number == pytest.approx(150, rel=0.3)
    size = block_size(Paused(2e-6, pause, [hiccup]), GOOD_CLOCK, Limits(0.01, 0.2, 2.0))
    assert size.number == pytest.approx(150, rel=0.3)
    assert size.seconds == pytest.approx(BLOCK_SECONDS, rel=0.3)


@pytest.mark.parametrize("blocks", range(1, 40))
def test_samples_of_blocks_that_are_far_too_short_are_dropped(blocks: int) -> None:
    """The machine pauses again and again while the block is sized and for some blocks after it."""
    (sampling,) = take(Paused(2e-6, 5e-3, range(blocks)))
    assert sampling.number == pytest.approx(150, rel=0.3)
    assert median(sampling.wall[:10]) == pytest.approx(BLOCK_SECONDS, rel=0.3)


def test_samples_of_blocks_that_are_far_too_long_are_dropped() -> None:
    loop = ScriptedLoop(lambda index: 1e-7 if index < 20 else 2e-6)
    (sampling,) = take(loop, least=0.01)
    assert sampling.number == pytest.approx(150, rel=0.1)
    assert max(sampling.wall) < 2 * BLOCK_SECONDS


def test_a_loop_that_was_sized_in_a_pause_does_not_lengthen_the_blocks_of_others() -> None:
    steady = ScriptedLoop(lambda _: 1e-6)
    one, other = take(steady, Paused(2e-6, 0.2, range(12)))
    assert median(one.wall) == pytest.approx(BLOCK_SECONDS, rel=0.3)
    assert median(other.wall) == pytest.approx(BLOCK_SECONDS, rel=0.3)


def test_a_loop_that_no_size_fits_is_measured_all_the_same() -> None:
    """Its blocks are slow for a while whenever their size changes, so each size is too small."""

    class Sulking(ScriptedLoop):
        def run(self, number: int) -> Block:
            block = super().run(number)
            same = next((n for n in range(2, 40) if self.numbers[-n:] != [number] * n), 40)
            return type(block)(block.wall * (20 if same < 20 else 1), block.cpu)

    loop = Sulking(lambda _: 2e-6)
    (sampling,) = take(loop, least=0.01)
    assert len(sampling.wall) >= MIN_SAMPLES
    assert len(loop.numbers) < 1000


def test_a_script_is_past_its_profiling_when_its_block_is_sized() -> None:
    """The executor takes long for the first runs, however many of them a block has."""
    first = [5e-3, 0.15, 0.02, 1e-3]

    class Script(ScriptedLoop):
        def run(self, number: int) -> Block:
            done = sum(self.numbers)
            block = super().run(number)
            return type(block)(block.wall + sum(first[done : done + number]), block.cpu)

    loop = Script(lambda _: 1e-4)
    size = block_size(loop, GOOD_CLOCK, Limits(0.01, 0.2, 2.0))
    assert size.number == 3
    assert len(loop.numbers) < 60


def test_of_a_statement_that_is_known_to_be_long_nothing_is_run_to_size_a_block() -> None:
    loop = ScriptedLoop(lambda _: 1.0)
    size = block_size(loop, GOOD_CLOCK, Limits(0.01, 0.2, 2.0), 1e-4, run_seconds=1e-3)
    assert (size, loop.numbers) == ((1, 1e-3), [])
    short = block_size(
        ScriptedLoop(lambda _: 1e-6), GOOD_CLOCK, Limits(0.01, 0.2, 2.0), 1e-4, run_seconds=1e-6
    )
    assert short.number == pytest.approx(100, rel=0.5)


def test_a_quick_statement_beside_a_slow_one_gets_its_time() -> None:
    quick, slow = take(ScriptedLoop(lambda _: 1e-6), ScriptedLoop(lambda _: 0.3))
    assert slow.number == 1
    assert sum(quick.wall) > 0.2


def test_a_block_is_sized_by_warm_runs_though_the_first_ones_take_much_longer() -> None:
    """As those of a process that was just forked."""
    cold = 20

    def seconds(run: int) -> float:
        return 2e-4 if run < cold else 1e-5

    (sampling,) = take(ScriptedLoop(seconds))
    assert sampling.number == pytest.approx(BLOCK_SECONDS / 1e-5, rel=0.1)


def test_precision_is_asked_of_both_sides_of_the_median() -> None:
    draw = random.Random(3)
    (sampling,) = take(
        ScriptedLoop(lambda _: 1e-4 * (1 + draw.expovariate(4))),
        precision=0.02,
        least=0.01,
        most=50,
    )
    low, high = median_interval(sampling.wall)
    assert max(high - median(sampling.wall), median(sampling.wall) - low) <= 0.021 * median(
        sampling.wall
    )
