"""Style of an answer, differences in style, and the win rate at equal style; by numbers worked out by hand."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import mean

import pytest

from judgegym.eval_environments.arena import standings
from judgegym.eval_environments.arena.standings import (
    MAX_CHARACTERS,
    TextStyle,
    compute_style_difference,
    measure_style,
)
from judgegym.llm.usage import count_tokens

EQUAL = [0.0, 0.0, 0.0, 0.0]
LONGER = [1.0, 0.0, 0.0, 0.0]
ANSWER = """# Title
####### seven marks are no header
#neither is this

Some **bold** text, __bold__ too, ** not bold, 2 * 3 * 4.

- one
  * two
3. three
-four

```python
# a comment
- **no item**
```
## Last
"""


def logit(share: float) -> float:
    return math.log(share / (1 - share))


def rows(share: float, count: int) -> list[list[float]]:
    """Rows of one entry each, of which this share is won."""
    won = round(share * count)
    return [[1.0]] * won + [[0.0]] * (count - won)


def test_markdown_is_counted_outside_code_blocks_and_tokens_everywhere() -> None:
    style = measure_style(ANSWER)
    assert (style.headers, style.list_items, style.bold) == (2, 3, 2)
    assert style.tokens == count_tokens(ANSWER)


def test_counts_of_an_answer_longer_than_what_is_looked_at_are_in_proportion() -> None:
    lines = "# a\n- b\n\n**c**\n"
    whole, half = (
        measure_style(lines * (2 * MAX_CHARACTERS // len(lines) // part)) for part in (1, 2)
    )
    assert half.headers == half.list_items == half.bold == MAX_CHARACTERS // len(lines)
    assert (whole.headers, whole.list_items, whole.bold) == pytest.approx(
        (2 * half.headers,) * 3, rel=1e-3
    )


def test_code_block_without_an_end_reaches_to_the_end() -> None:
    style = measure_style("# a\n```\n# b\n- c\n")
    assert (style.headers, style.list_items, style.bold) == (1, 0, 0)


def test_difference_is_of_relative_length_and_of_densities() -> None:
    model = TextStyle(tokens=30, headers=3, list_items=6, bold=0)
    baseline = TextStyle(tokens=10, headers=0, list_items=5, bold=10)
    # Densities per token: 0.1 and 0; 0.2 and 0.5; 0 and 1.
    assert compute_style_difference(model, baseline) == pytest.approx(
        [0.5, 0.1 / 1.1, -0.3 / 1.7, -1 / 2]
    )


def test_empty_answers_have_no_style() -> None:
    empty = TextStyle(0, 0, 0, 0)
    assert compute_style_difference(empty, empty) == EQUAL
    assert compute_style_difference(TextStyle(4, 0, 0, 0), empty) == [1.0, 0.0, 0.0, 0.0]


def style_controlled_win_rate(
    rows: Sequence[Sequence[float]], differences: Sequence[Sequence[float]]
) -> float | None:
    return standings.compute_style_controlled_win_rate(zip(rows, differences, strict=True))


def test_entries_count_as_in_the_plain_win_rate() -> None:
    """A strong verdict is several entries, a tie half a win."""
    entries = [[1.0, 1.0, 1.0, 0.5], [0.5, 0.5], [1.0, 0.0], [0.5, 1.0]]
    found = style_controlled_win_rate(entries, [EQUAL] * 4)
    assert found == pytest.approx(0.7, abs=1e-4)


def test_wins_by_length_alone_are_taken_out() -> None:
    """Nine in ten won where longer, as many lost where shorter, and twice as many rows of the first kind."""
    entries = [*rows(0.9, 40), *rows(0.1, 20)]
    differences = [*[LONGER] * 40, *[[-1.0, 0.0, 0.0, 0.0]] * 20]
    assert mean(entry for row in entries for entry in row) == pytest.approx(38 / 60)
    assert style_controlled_win_rate(entries, differences) == pytest.approx(0.5, abs=1e-3)


@pytest.mark.parametrize("unit", [1.0, 0.01], ids=["as length", "as densities"])
@pytest.mark.parametrize("feature", range(4))
def test_win_rate_is_read_off_the_line_of_log_odds_at_zero(feature: int, unit: float) -> None:
    """Two kinds of rows fix the line: log odds of 0.9 at a difference of 0.4, and of 0.6 at −0.1, in any unit."""
    slope = (logit(0.9) - logit(0.6)) / 0.5
    wanted = 1 / (1 + math.exp(-(logit(0.6) + 0.1 * slope)))
    some, other = list(EQUAL), list(EQUAL)
    some[feature], other[feature] = 0.4 * unit, -0.1 * unit
    found = style_controlled_win_rate(
        [*rows(0.9, 100), *rows(0.6, 20)], [*[some] * 100, *[other] * 20]
    )
    assert found == pytest.approx(wanted, abs=1e-3)
    assert wanted == pytest.approx(0.682, abs=1e-3)


def test_style_that_separates_wins_from_losses_gives_a_finite_rate() -> None:
    found = style_controlled_win_rate(
        [[1.0]] * 5 + [[0.0]] * 5, [LONGER] * 5 + [[-1.0, 0.0, 0.0, 0.0]] * 5
    )
    assert found == pytest.approx(0.5, abs=1e-3)


@pytest.mark.parametrize("entry", [0.0, 1.0])
def test_all_wins_and_all_losses_have_no_rate_at_equal_style(entry: float) -> None:
    assert style_controlled_win_rate([[entry, entry]] * 3, [EQUAL, LONGER, EQUAL]) is None
    assert style_controlled_win_rate([], []) is None
