"""The chart of places: whether a judge of groups prefers the answers that it is shown first, or last."""

from __future__ import annotations

from judgegym.reports.run_page.charts import bars_of
from judgegym.reports.run_page.figures import Mean, RunFigures
from judgegym.reports.run_page.items import Chart

_MOST = 24


def by_place(figures: RunFigures) -> Chart | None:
    """The mean points of the answers at each place; `None` if answers were not compared.

    An answer is shown at a random place, and so, without position bias, the bars are equal but for chance.
    """
    import numpy as np

    places, of, points, scores = map(np.asarray, figures.looks)
    if len(set(places)) < 2:
        return None
    are_games = of.max() == 2
    sizes, number = np.unique(of, return_inverse=True)
    if len(sizes) > 1:  # late places are those of large groups alone, whose answers may be better or worse
        means = np.bincount(number, weights=points) / np.bincount(number)
        points = points.mean() + points - means[number]
    names = {1: "shown first", 2: "shown second"} if are_games else {}
    bars = []
    for place in sorted({*map(int, places)})[:_MOST]:
        of_place = points[places == place]
        bars.append((names.get(place, f"place {place}"), Mean(float(of_place.mean()), len(of_place), None)))
    there = ~np.isnan(scores)
    at, rewards = (places[there] - 1) / np.maximum(of[there] - 1, 1), scores[there]
    varies = len(rewards) > 2 and np.std(at) > 0 and np.std(rewards) > 0
    correlation = (
        f" The correlation of reward and place is {round(np.corrcoef(at, rewards)[0, 1], 2) + 0.0:.2f}."
        if varies
        else ""
    )
    among = " An answer is compared with those of calls that showed as many." if len(sizes) > 1 else ""
    return bars_of(
        bars,
        "Points by place",
        "mean points",
        item="answer",
        note=f"{among} Without position bias the bars are equal but for chance.{correlation}",
    )
