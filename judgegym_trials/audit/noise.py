"""Biases of a judge if gold labels may be wrong: effects of `bias.py` with the truth held fixed.

If better responses tend to be longer and gold has errors, length stands in for the quality that
gold misses, so a faultless judge seems to like it. The knowledge about the labels decides the
method:

* exact labels (a stated noise of 0): the regressions of `bias.py`; * a stated share of wrong
labels: the likelihood over the truth at that share (`latent_truth.py`); * second labels: the share
follows from how often both labellers disagree, over the rows with two labels. If they agree, few
labels are wrong; if they disagree, the row has no label, and its verdicts still tell a little; *
one label a row and nothing stated: an effect counts only if it is found at every share up to a
bound.

For scores, a wrong gold score is that of some other row, so a share of η multiplies the covariance
of gold with anything else by 1 − η. With two labellers, the covariance of their scores tells η.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from judgegym.statistics.agreement import cluster_sums
from judgegym_trials.audit.bias import FEWEST, find_differing, measure_effects
from judgegym_trials.audit.clustered import ClusteredEstimate
from judgegym_trials.audit.features import STANDARDISED
from judgegym_trials.audit.judgments import SWAPPED, TIE, Judgments
from judgegym_trials.audit.latent_truth import (
    MOST_NOISE,
    Choices,
    LatentTruth,
    estimate_noise,
    noise_left,
)

if TYPE_CHECKING:
    from judgegym.statistics.agreement import Codes, Floats

RARE_UP_TO = 0.2
"""With second labels, false alarms are as rare as promised up to this share of wrong labels."""

_RIDGE, _RIDGE_OF_TWO = 0.1, 1.4
"""Ridges of the likelihood; the larger one is for two labels a row."""


@dataclass(frozen=True, slots=True)
class SecondLabels:
    """Noise of the labels, from rows with two labels.

    Attributes:
        rows: number of rows with two labels.
        differ: number of these rows whose labels differ; scores may differ by any amount.
        noise: the share of wrong labels.
    """

    rows: int
    differ: int
    noise: float


@dataclass(frozen=True, slots=True)
class AtNoise:
    """Effect at one share of wrong labels: the estimate, and the p-value of "no effect"."""

    estimate: ClusteredEstimate
    p: float


@dataclass(frozen=True)
class NoisyEffect:
    """Effect of a property if labels may be wrong.

    Attributes:
        name: the check's name.
        exact: the estimate if no label were wrong.
        labels: the rows, for any share of wrong labels.
    """

    name: str
    exact: ClusteredEstimate
    labels: NoisyLabels

    @property
    def is_known(self) -> bool:
        """Whether the share of wrong labels is known."""
        return self.labels.noise is not None

    def effect_at_known_noise(self) -> AtNoise:
        """Return the effect at the known share of wrong labels."""
        assert self.labels.noise is not None
        return self.at(self.labels.noise)

    def at(self, noise: float) -> AtNoise:
        """Return the effect at a share of wrong labels."""
        return self.labels.at(noise)[self.name]


def compare_labels(judgments: Judgments) -> SecondLabels | None:
    """Compare both labels of rows that have two.

    `None` if no row has two, or if the noise is stated.
    """
    if judgments.second_gold is None or judgments.label_noise is not None:
        return None
    both = np.isfinite(judgments.second_gold)
    gold = judgments.gold[both]
    second = judgments.second_gold[both]
    differ = int((gold != second).sum())
    if judgments.kind == "score":
        spread = float(np.var(np.concatenate([gold, second])))
        shared = float(np.mean((gold - gold.mean()) * (second - second.mean())))
        noise = 0.0
        if spread > 0:
            noise = 1.0 - math.sqrt(min(1.0, max(0.0, shared / spread)))
        return SecondLabels(int(both.sum()), differ, min(MOST_NOISE, noise))
    options = len(judgments.levels) if judgments.kind == "label" else judgments.counts[both]
    usual = float(np.mean(options / np.maximum(np.asarray(options) - 1.0, 1.0)))
    return SecondLabels(
        int(both.sum()), differ, estimate_noise(differ / max(1, int(both.sum())), usual)
    )


def measure_noisy_effects(
    judgments: Judgments,
) -> Mapping[str, ClusteredEstimate | NoisyEffect | str]:
    """Return each property's effect on the judge's verdicts, or why it is not measured."""
    estimates = measure_effects(judgments)
    if judgments.label_noise == 0:
        return estimates
    second = compare_labels(judgments)
    names = [name for name, estimate in estimates.items() if not isinstance(estimate, str)]
    noise = judgments.label_noise if second is None else second.noise
    labels = NoisyLabels(judgments, tuple(names), noise, second)
    noisy: dict[str, ClusteredEstimate | NoisyEffect | str] = dict(estimates)
    for name, estimate in estimates.items():
        if isinstance(estimate, ClusteredEstimate):
            noisy[name] = labels.check_enough(name, estimate)
    return noisy


@dataclass(frozen=True, eq=False)
class NoisyLabels:
    """The rows of an audit whose labels may be wrong.

    Attributes:
        judgments: all rows.
        names: the properties that are measured.
        noise: the share of wrong labels; `None` if unknown.
        second: the noise from second labels; then effects use only rows with two labels.
    """

    judgments: Judgments
    names: tuple[str, ...]
    noise: float | None
    second: SecondLabels | None
    _effects_by_noise: dict[float, Mapping[str, AtNoise]] = field(default_factory=dict)

    def check_enough(self, name: str, exact: ClusteredEstimate) -> NoisyEffect | str:
        """Return the effect of a property, or why it is not measured.

        Too few rows with two labels may differ in it.
        """
        if (count := self._informative[name]) < FEWEST:
            return (
                f"it needs {FEWEST} rows with two labels that differ in it, and there are {count}"
            )
        return NoisyEffect(name, exact, self)

    def at(self, noise: float) -> Mapping[str, AtNoise]:
        """Return the effects at a share of wrong labels."""
        if noise not in self._effects_by_noise:
            steps = [math.tanh(1) if name in STANDARDISED else 1.0 for name in self.names]
            measure = self._measure_choices
            if self.judgments.kind == "score":
                measure = self._measure_scores
            self._effects_by_noise[noise] = dict(
                zip(self.names, measure(noise, steps), strict=True)
            )
        return self._effects_by_noise[noise]

    def _measure_choices(self, noise: float, steps: Sequence[float]) -> list[AtNoise]:
        fitted = LatentTruth(
            self._choices,
            self._wrong_chances(noise),
            _RIDGE if self.second is None else _RIDGE_OF_TWO,
        ).measure_effects(steps)
        return [
            AtNoise(self._estimate(name, effect.value, effect.error), effect.p)
            for name, effect in zip(self.names, fitted, strict=True)
        ]

    @cached_property
    def _rows(self) -> Codes:
        """The rows that count: with a verdict, and with two labels if any have."""
        judgments = self.judgments
        chosen = judgments.is_read[:, :, 0]
        if judgments.kind == "choice":
            chosen = chosen & (judgments.first != TIE)
        counts = chosen.any(axis=1)
        if self.second is not None and judgments.second_gold is not None:
            counts &= np.isfinite(judgments.second_gold)
        return np.flatnonzero(counts)

    @property
    def _counts(self) -> Codes:
        """Each row's number of options; a response with a label has two."""
        counts = self.judgments.counts[self._rows]
        if self.judgments.kind == "choice":
            return counts
        return np.maximum(counts, 2)

    @cached_property
    def _properties(self) -> tuple[Floats, Floats]:
        """Properties by row and option: as regressors of the truth, and of verdicts.

        Properties without a unit are in standard deviations of the difference; for verdicts their
        tanh is used, as in `bias.py`.
        """
        judgments, rows = self.judgments, self._rows
        counts = judgments.counts[rows]
        linear, bent = [], []
        for name in self.names:
            values = judgments.features[name][rows]
            shares: Floats = np.ones((len(rows), 1))
            if judgments.kind == "choice":
                apart = np.nan_to_num(values[:, :, None] - values[:, None, :])
                both = (np.arange(values.shape[1])[None, :] < counts[:, None]).astype(float)
                apart *= both[:, :, None] * both[:, None, :]
                shares = counts[:, None].astype(float)
                pairs = float((both.sum(axis=1) * (both.sum(axis=1) - 1)).sum())
            else:
                centred = np.nan_to_num(values[:, 0] - np.nanmean(values[:, 0]))
                apart = np.stack([np.zeros_like(centred), centred], axis=1)[:, :, None]
                pairs = float(len(centred))
            deviation = math.sqrt(float((apart**2).sum()) / max(1.0, pairs)) or 1.0
            shaped = apart
            if name in STANDARDISED:
                apart = apart / deviation
                shaped = np.tanh(apart)
            linear.append(apart.sum(axis=2) / shares)
            bent.append(shaped.sum(axis=2) / shares)
        return np.stack(linear, axis=2), np.stack(bent, axis=2)

    @cached_property
    def _informative(self) -> Mapping[str, int]:
        """Number of clusters that differ in each property."""
        values: Floats = np.zeros((0, 1, len(self.names)))
        if self.names and len(self._rows):
            values = self._properties[1]
        clusters = self.judgments.clusters[self._rows]
        cluster_counts = {}
        for number, name in enumerate(self.names):
            property_values = values[:, :, number]
            is_pair = self.judgments.kind == "choice"
            if is_pair:
                differs = find_differing(property_values, is_pair=True).any(axis=1)
            else:
                differs = find_differing(property_values[:, -1], is_pair=False)
            cluster_counts[name] = len(np.unique(clusters[differs]))
        return cluster_counts

    @cached_property
    def _choices(self) -> Choices:
        """The rows for the likelihood; a label of two is a choice of yes or no."""
        judgments, rows = self.judgments, self._rows
        linear, bent = self._properties
        verdicts = judgments.first[rows]
        if judgments.kind == "label":
            constant = np.zeros((len(rows), 2, 1))
            constant[:, 1] = 1.0
            about_truth = np.concatenate([constant, linear], axis=2)
            about_verdict = constant[:, None]
            raised: tuple[int, ...] = (1,)
        else:
            raised = tuple(range(bent.shape[1]))
            last = np.maximum(self._counts - 1, 1)[:, None, None]
            sides = np.where(np.arange(verdicts.shape[1]) == SWAPPED, 1.0, -1.0)[None, :, None]
            about_truth = linear
            about_verdict = (sides * np.arange(bent.shape[1])[None, None, :] / last)[..., None]
        return Choices(
            self._counts,
            judgments.gold[rows].astype(np.int64),
            bent,
            about_truth,
            about_verdict,
            np.where(np.isfinite(verdicts) & (verdicts >= 0), verdicts, -1).astype(np.int64),
            judgments.clusters[rows],
            raised,
        )

    def _wrong_chances(self, noise: float) -> Floats:
        """Return for each row the chance that its label is wrong.

        Where two labels differ, any option may be true.
        """
        counts = self._counts
        if self.second is None or self.judgments.second_gold is None:
            return np.full(len(self._rows), noise)
        agree = self.judgments.gold[self._rows] == self.judgments.second_gold[self._rows]
        left = np.array([noise_left(noise, int(count)) for count in counts])
        return np.where(agree, left, 1.0 - 1.0 / counts)

    def _estimate(self, name: str, value: float, error: float) -> ClusteredEstimate:
        return ClusteredEstimate(value, max(error, 1e-9), self._informative[name], fewest=FEWEST)

    def _measure_scores(self, noise: float, steps: Sequence[float]) -> list[AtNoise]:
        """Return the effect of a step in each property on the score, as a share of the scale.

        Gold's variance is reduced to the part it shares with the truth; errors come from the
        jackknife over clusters.
        """
        judgments, rows = self.judgments, self._rows
        verdicts = judgments.first[rows, 0] / judgments.span
        gold = judgments.gold[rows] / judgments.span
        if self.second is not None and judgments.second_gold is not None:
            gold = (gold + judgments.second_gold[rows] / judgments.span) / 2
            # The mean of two labels has half of one label's error variance.
            shared = 2 * (1 - noise) ** 2 / (1 + (1 - noise) ** 2)
        else:
            shared = (1 - noise) ** 2
        columns = np.column_stack([np.ones(len(rows)), gold, self._properties[1][:, 1], verdicts])
        products = np.einsum("ni,nj->nij", columns, columns).reshape(len(rows), -1)
        _, clusters = np.unique(judgments.clusters[rows], return_inverse=True)
        sums = cluster_sums(products, clusters)
        size = columns.shape[1]
        whole = sums.sum(axis=0)
        moments = np.vstack([whole, whole - sums]).reshape(-1, size, size)
        spread = moments[:, 1, 1] - moments[:, 0, 1] ** 2 / moments[:, 0, 0]
        moments[:, 1, 1] -= (1 - shared) * spread
        solved = np.linalg.solve(
            moments[:, :-1, :-1] + 1e-9 * np.eye(size - 1), moments[:, :-1, -1:]
        )[:, 2:, 0]
        without, count = solved[1:], len(sums)
        errors = np.sqrt(((without - without.mean(axis=0)) ** 2).sum(axis=0) * (count - 1) / count)
        results = []
        for name, step, value, error in zip(self.names, steps, solved[0], errors, strict=True):
            estimate = self._estimate(name, float(value) * step, float(error) * step)
            results.append(AtNoise(estimate, estimate.p_outside(0.0)))
        return results
