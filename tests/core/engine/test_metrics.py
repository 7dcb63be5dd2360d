import math
import random
import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from judgegym.engine.metrics import HeadlineTerm, MetricAggregator, RatioRecorder, slug
from judgegym.judges.core.naming import MetricNames
from judgegym.statistics.intervals import Ends, mean_interval


def test_expected_metric_without_a_value_is_left_out_with_its_reason() -> None:
    metrics = MetricAggregator("eval")
    metrics.mean("there", 1.0)
    metrics.leave_out("odd", "a reason of its own")
    metrics.cost("cost_usd", None)
    metrics.expect("nobody answered", "there", "odd", "cost_usd", "absent")
    found = metrics.result()
    assert found.values == {"eval/there": 1.0}
    assert found.left_out == {"eval/odd": "a reason of its own", "eval/absent": "nobody answered"}
    assert [*found.unknown] == ["eval/cost_usd"]


def values(metrics: MetricAggregator) -> dict[str, float | int]:
    return metrics.result().values


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("Precise IF", "precise_if"),
        ("arena-hard-v0.1", "arena-hard-v0.1"),
        ("coding", "coding"),
        ("Math", "math"),
        ("claude-sonnet-4:thinking", "claude-sonnet-4_thinking"),
        ("org/model", "org_model"),
        ("../..", ".._.."),
        ("数学", "数学"),
        ("C", "c"),
        ("C++", "c~f1deb75f"),
        ("C#", "c~"),
        ("Math (hard)", "math_hard~"),
        ("  Math ", "math~"),
        ("a / b", "a_b~"),
        ("", "unnamed~"),
        ("CI low", "ci_low~"),
        ("Math CI low", "math_ci_low~"),
        ("Cluster a", "cluster_a~"),
        ("x" * 81, "x" * 80 + "~"),
    ],
)
def test_slug(name: str, expected: str) -> None:
    found = slug(name)
    assert found.startswith(expected) if expected.endswith("~") else found == expected


NAMES = (
    st.text()
    | st.text("Cc+#<>≤5 _-/:F~", max_size=4)
    | st.sampled_from(["CI low", "math_ci_low", "Max", "p95"])
)


@given(one=NAMES, other=NAMES)
def test_different_names_of_the_data_are_different_in_metrics(one: str, other: str) -> None:
    names = MetricNames([one, other])
    assert (names(one) == names(other)) == (one == other)
    assert slug(one) and not any(each.isspace() or each in "/\\\0" for each in slug(one))
    if slug(one) == slug(other):  # whatever else the data holds, only such names can meet
        assert _alike(one) == _alike(other)


def _alike(name: str) -> str:
    return re.sub("[ /:]", "_", name.lower())


@pytest.mark.slow
@given(name=NAMES, other=NAMES)
def test_no_name_of_the_data_makes_a_metric_of_ours(name: str, other: str) -> None:
    metrics = MetricAggregator("eval", names=MetricNames([name, other]))
    metrics.mean("score", 0.0, interval=True)
    metrics.mean("score_max", 0.0)
    metrics.mean("score_cluster_x", 0.0)
    for each in {name, other}:
        metrics.mean(f"score_{metrics.names(each)}", 1.0, interval=True)
    found = values(metrics)
    assert len(found) == 5 + 3 * len({name, other})
    assert found["eval/score"] == found["eval/score_ci_low"] == found["eval/score_max"] == 0.0


def test_names_that_differ_in_case_alone_have_digests_where_both_are_in_the_data() -> None:
    names = MetricNames(["Math", "coding"])
    assert (names("Math"), names("coding"), names("never seen")) == ("math", "coding", "never_seen")
    names.add(["math"])
    assert len({names("Math"), names("math"), "math"}) == 3
    assert names("coding") == "coding"


def test_names_have_the_prefix_and_stand_in_the_order_of_their_first_appearance() -> None:
    metrics = MetricAggregator("eval")
    metrics.count("b", 0)
    metrics.rate("a", True, interval=True)
    metrics.number("c", 3)
    metrics.count("b", True)
    assert list(metrics.result().values) == [
        "eval/b",
        "eval/a",
        "eval/a_ci_low",
        "eval/a_ci_high",
        "eval/c",
    ]
    assert values(metrics)["eval/b"] == 1


def test_a_ratio_whose_weights_sum_to_0_has_no_value() -> None:
    metrics = MetricAggregator("eval")
    metrics.ratio("won", 0.0, 0.0, interval=True)
    metrics.ratio("won", 1.0, 0.0, interval=True)
    metrics.mean("there", 1.0)
    found = metrics.result()
    assert found.values == {"eval/there": 1.0}
    assert list(found.left_out) == ["eval/won"]
    assert "weights sum to 0" in found.left_out["eval/won"]


def test_with_one_observation_the_interval_is_a_point_and_training_has_none() -> None:
    metrics = MetricAggregator("eval")
    metrics.mean("score", 0.3, interval=True)
    assert values(metrics) == {
        "eval/score": 0.3,
        "eval/score_ci_low": 0.3,
        "eval/score_ci_high": 0.3,
    }
    training = MetricAggregator("train", intervals=False)
    assert values(training) == {}
    training.mean("score", 1.0, interval=True)
    assert values(training) == {"train/score": 1.0}


def test_the_interval_is_over_rows() -> None:
    metrics, numbers = MetricAggregator("eval"), random.Random(1)
    rows = [(numbers.random() * n, float(n)) for n in (2, 6, 4, 2, 2, 6)]
    for won, of in rows:
        metrics.ratio("won", won, of, interval=True)
    metrics.rate("hit", True)
    metrics.rate("hit", False)
    bounds = mean_interval([won for won, _ in rows], [of for _, of in rows])
    assert bounds is not None
    found = values(metrics)
    assert (found["eval/won_ci_low"], found["eval/won_ci_high"]) == (bounds.low, bounds.high)
    assert (
        bounds.low
        < found["eval/won"]
        == sum(won for won, _ in rows) / sum(of for _, of in rows)
        < bounds.high
    )
    assert found["eval/hit"] == 0.5


def test_rows_of_one_prompt_are_one_observation_of_the_interval() -> None:
    """Four responses to each of 20 prompts say as much of the mean as 20 rows where those of a prompt are equal."""
    metrics, alone = MetricAggregator("eval"), MetricAggregator("eval")
    for prompt in range(20):
        metrics.begin_row(f"prompt {prompt}")
        for _ in range(4):
            metrics.rate("right", prompt % 3 > 0, interval=True)
        alone.rate("right", prompt % 3 > 0, interval=True)
    assert values(metrics) == pytest.approx(
        values(alone), abs=0.001
    )  # of rates alone the interval is exact


def test_rows_that_are_all_of_one_prompt_have_no_interval_and_the_reason() -> None:
    metrics = MetricAggregator("eval")
    metrics.begin_row("the only one")
    for value in (0.0, 0.5, 1.0):
        metrics.mean("score", value, interval=True)
    found = metrics.result()
    assert found.values == {"eval/score": 0.5}
    assert set(found.left_out) == {"eval/score_ci_low", "eval/score_ci_high"}
    assert all("one prompt" in reason for reason in found.left_out.values())


def test_equal_scores_have_an_interval_from_their_number_and_the_scale() -> None:
    metrics = MetricAggregator("eval")
    for _ in range(20):
        metrics.rate("right", False, interval=True)
        metrics.mean("score", 5.0, interval=True, ends=(1, 5))
        metrics.mean("reward", 3.5, interval=True)
    found = metrics.result()
    assert (found.values["eval/right_ci_low"], found.values["eval/score_ci_high"]) == (0.0, 5.0)
    assert found.values["eval/right_ci_high"] == pytest.approx(1 - 0.05 ** (1 / 20))
    assert found.values["eval/score_ci_low"] == pytest.approx(5 - 4 * (1 - 0.05 ** (1 / 20)))
    assert "eval/reward_ci_low" not in found.values
    assert "their scale" in found.left_out["eval/reward_ci_low"]
    assert found.ends == {"eval/score": Ends(1, 5)}


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_what_is_not_finite_is_left_out_with_the_reason(bad: float) -> None:
    metrics = MetricAggregator("eval")
    metrics.number("latency", bad)
    for value in (0.5, bad, 0.5):
        metrics.mean("score", value, interval=True)
    metrics.number("count", 2)
    result = metrics.result()
    assert result.values == {"eval/count": 2}
    assert set(result.left_out) == {
        "eval/latency",
        "eval/score",
        "eval/score_ci_low",
        "eval/score_ci_high",
    }
    assert all(f"finite number ({bad})" in reason for reason in result.left_out.values())


def test_counts_add_up_and_numbers_are_set() -> None:
    metrics = MetricAggregator("eval")
    for by in (1, True, 0, False, 3):
        metrics.count("rows", by)
    metrics.number("cost", 1.5)
    metrics.number("cost", 2.5)
    found = values(metrics)
    assert found == {"eval/rows": 5, "eval/cost": 2.5}
    assert isinstance(found["eval/rows"], int)


def test_the_share_of_a_row_is_what_it_adds_to_one_ratio() -> None:
    metrics = RatioRecorder("won")
    assert metrics.pop_share() is None
    metrics.ratio("won", 1.0, 2.0, interval=True)
    metrics.mean("other", 7.0)
    metrics.count("rows")
    metrics.number("won", 7.0)
    metrics.ratio("won", 2.0, 2.0)
    share = metrics.pop_share()
    assert share == HeadlineTerm(3.0, 4.0) and share.value == 0.75
    assert metrics.pop_share() is None, "it is of the row before"
    metrics.ratio("won", 3.0, 4.0)
    others = MetricAggregator("eval")
    others.ratio("won", 1.0, 4.0)
    others.mean("other", 7.0)
    metrics.extend(others)
    assert metrics.pop_share() == HeadlineTerm(4.0, 8.0)
    assert metrics.result().values == {}


def test_extended_aggregator_has_the_observations_of_both_in_their_order() -> None:
    both, first, second = (MetricAggregator("eval") for _ in range(3))
    for number in range(20):
        for metrics in (both, first if number < 10 else second):
            metrics.ratio("won", number % 3, 1 + number % 2, interval=True)
            if number > 14:
                metrics.rate("late", number % 2 == 0)
    first.extend(second)
    assert first.result() == both.result()


@pytest.mark.slow
@example([(1e-142, 2.0), (1.0, 1.0), (0.0, 1.0)])
@example([(1e-160, 1.0), (1e-142, 1.0)])
@given(st.lists(st.tuples(st.floats(0, 6), st.floats(1, 6)), min_size=1, max_size=20))
def test_every_value_is_finite_and_within_the_interval(rows: list[tuple[float, float]]) -> None:
    metrics = MetricAggregator("eval")
    for won, of in rows:
        metrics.ratio("won", won, of, interval=True)
    found = values(metrics)
    assert all(math.isfinite(value) for value in found.values())
    if "eval/won_ci_low" in found:
        assert (
            found["eval/won_ci_low"] - 1e-9 <= found["eval/won"] <= found["eval/won_ci_high"] + 1e-9
        )
