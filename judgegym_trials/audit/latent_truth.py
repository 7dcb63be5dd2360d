"""Latent-truth model of a judge's verdicts, for labels that may be wrong.

If labels are held fixed, anything correlated with the truth stands in for what the labels miss, so
a faultless judge seems to like it. Here the truth t of a row is summed over instead. The likelihood
of a row is

    Σ over t of P(t | x; κ) · P(label | t; η) · Π over its verdicts of P(verdict | t, x; a, θ, β)

with the properties x of the options; P(t) is a conditional logit of them; P(label) is 1 − η for the
truth and an equal share of η for each other option; P(verdict) is a conditional logit of being the
truth (a), of regressors of the verdict alone (θ, such as the position) and of the properties (β).
An effect is tested by the ratio of the likelihoods with and without its β. All coefficients have a
weak ridge. If the squared error robust to clusters is larger than the model's, the ratio is divided
by their quotient: verdicts of one row depend on each other beyond the truth.

Sources: Dawid and Skene (1979) for labels with errors; Louis, Finding the observed information
matrix when using the EM algorithm (1982), for the second derivatives.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from judgegym.statistics.agreement import Codes, Floats

_ROUNDS = 60
_STILL = 1e-7
MOST_NOISE = 0.45
"""Maximum share of wrong labels; labels with more errors tell almost nothing."""


@dataclass(frozen=True, slots=True)
class Choices:
    """N rows of up to K options with a label, and up to M verdicts each.

    Attributes:
        counts: N: number of a row's options; entries beyond have no meaning.
        labels: N: the number of the option that the label names.
        properties: N × K × P: the options' properties that may sway verdicts; only differences
            within a row matter.
        about_truth: N × K × any: regressors of the truth: the properties, or a constant for one
            option.
        about_verdict: N × M × K × any: regressors of the verdict alone, such as the position.
        verdicts: N × M: the number of the option that was chosen; −1 without a verdict.
        clusters: N: rows with the same number depend on each other.
        raised: the numbers of the options whose probability an effect changes.
    """

    counts: Codes
    labels: Codes
    properties: Floats
    about_truth: Floats
    about_verdict: Floats
    verdicts: Codes
    clusters: Codes
    raised: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class LatentEffect:
    """Effect of a step in a property on the probability of an option.

    Attributes:
        value: a difference of probabilities, averaged over rows, verdicts and the distribution of
            the truth.
        error: its standard error.
        p: the p-value of "it has no effect", by the ratio of likelihoods.
    """

    value: float
    error: float
    p: float


def estimate_noise(disagreement: float, options: float = 2.0) -> float:
    """Return the share of wrong labels of two independent labellers, from their disagreement.

    Args:
        disagreement: the share of rows with two different labels.
        options: the mean of K / (K − 1) over the rows; 2 for two options.
    """
    return min(MOST_NOISE, (1.0 - math.sqrt(max(0.0, 1.0 - options * disagreement))) / options)


def noise_left(noise: float, options: int) -> float:
    """Return the share of wrong labels among those on which two labellers agree."""
    both_wrong = noise * noise / (options - 1)
    return both_wrong / (both_wrong + (1.0 - noise) ** 2)


@dataclass(frozen=True, slots=True)
class _Fit:
    """A maximum of the likelihood.

    It has the coefficients, the penalised log-likelihood, its second derivatives, and each row's
    first ones.
    """

    coefficients: Floats
    value: float
    information: Floats
    scores: Floats
    chances: Floats


class LatentTruth:
    """The model, fitted to some rows at one share of wrong labels."""

    def __init__(self, data: Choices, noise: float | Floats, ridge: float) -> None:
        """Prepare the rows.

        Args:
            data: the rows.
            noise: the share of wrong labels, for all rows or for each.
            ridge: factor of the penalty on the log-likelihood: half the square of each coefficient.
        """
        import numpy as np

        self._data, self._ridge = data, ridge
        rows, most = data.properties.shape[:2]
        self._is_option: NDArray[np.bool_] = np.arange(most)[None, :] < data.counts[:, None]
        of_rows = np.broadcast_to(np.asarray(noise, dtype=float), (rows,))
        with np.errstate(divide="ignore"):
            right = np.log1p(-of_rows)
            wrong = np.log(of_rows / np.maximum(data.counts - 1, 1))
        is_label = np.arange(most)[None, :] == data.labels[:, None]
        self._of_label: Floats = np.where(is_label, right[:, None], wrong[:, None])
        self._of_label[~self._is_option] = -np.inf
        self._truth: Floats = data.about_truth
        verdicts = data.verdicts.shape[1]
        repeated = np.broadcast_to(
            data.properties[:, None], (rows, verdicts, *data.properties.shape[1:])
        )
        self._verdict: Floats = np.concatenate([data.about_verdict, repeated], axis=3)
        self._is_read = data.verdicts >= 0
        self._sizes = self._truth.shape[2], self._verdict.shape[3]

    def measure_effects(self, steps: Sequence[float]) -> list[LatentEffect]:
        """Measure the effect of a step in each property."""
        import numpy as np
        from scipy.stats import chi2

        count = self._data.properties.shape[2]
        size = sum(self._sizes) + 1
        start = np.zeros(size)
        start[self._sizes[0]] = 2.0
        whole = self._fit(start, np.ones(size, dtype=bool))
        of_model = np.linalg.pinv(whole.information)
        _, codes = np.unique(self._data.clusters, return_inverse=True)
        sums = np.column_stack([np.bincount(codes, column) for column in whole.scores.T])
        robust = of_model @ (sums.T @ sums) @ of_model
        # Otherwise no two verdicts depend on each other.
        is_clustered = self._is_read.sum() > len(sums)
        results = []
        for number, step in enumerate(steps):
            place = size - count + number
            inflation = 1.0
            if is_clustered:
                inflation = max(1.0, float(robust[place, place] / of_model[place, place]))
            free = np.ones(size, dtype=bool)
            free[place] = False
            without = self._fit(np.where(free, whole.coefficients, 0.0), free)
            ratio = max(0.0, 2.0 * (whole.value - without.value)) / inflation
            value, slope = self._measure_effect(whole, number, step)
            error = math.sqrt(max(1e-18, float(slope @ of_model @ slope) * inflation))
            results.append(LatentEffect(value, error, float(chi2.sf(ratio, 1))))
        return results

    def _fit(self, start: Floats, free: NDArray[np.bool_]) -> _Fit:
        """Maximise by Newton's method, with steps halved until they climb."""
        import numpy as np

        at = self._evaluate(start)
        for _ in range(_ROUNDS):
            slope = at.scores.sum(axis=0) - self._ridge * at.coefficients
            curve = at.information[np.ix_(free, free)]
            lowest = float(np.linalg.eigvalsh(curve)[0])
            if lowest < self._ridge / 2:  # near a saddle point: up the gradient
                curve = curve + (self._ridge - lowest) * np.eye(len(curve))
            step = np.zeros(len(start))
            step[free] = np.linalg.solve(curve, slope[free])
            promised, share = float(step @ slope), 1.0
            if promised < _STILL:
                break
            while (
                not (after := self._evaluate(at.coefficients + share * step)).value >= at.value
                and share > 1e-4
            ):
                share /= 2.0
            if not after.value > at.value:
                break
            at = after
        return at

    def _evaluate(self, coefficients: Floats) -> _Fit:
        import numpy as np

        data, (first, second) = self._data, self._sizes
        most = self._is_option.shape[1]
        of_truth = coefficients[:first]
        right = coefficients[first]
        of_verdict = coefficients[first + 1 :]
        log_prior = _log_softmax(np.where(self._is_option, self._truth @ of_truth, -np.inf))
        linear = np.where(self._is_option[:, None, :], self._verdict @ of_verdict, -np.inf)
        # N × M × truth × option
        log_said = _log_softmax(linear[:, :, None, :] + right * np.eye(most))
        prior = np.exp(log_prior)
        verdict_chances = np.exp(log_said)
        chosen = np.maximum(data.verdicts, 0)
        rows, places = np.indices(chosen.shape)
        of_said = np.where(self._is_read[:, :, None], log_said[rows, places, :, chosen], 0.0).sum(
            axis=1
        )
        joint = log_prior + self._of_label + of_said
        highest = joint.max(axis=1, keepdims=True)
        weights = np.exp(joint - highest)
        total = weights.sum(axis=1, keepdims=True)
        chances = weights / total
        value = float((highest + np.log(total)).sum()) - self._ridge / 2.0 * float(
            coefficients @ coefficients
        )
        # The derivatives by each truth: N × truth × coefficient.
        mean_truth = np.einsum("nk,nkc->nc", prior, self._truth)
        by_truth = self._truth - mean_truth[:, None, :]
        everything = np.empty((*verdict_chances.shape, 1 + second))
        everything[..., 0] = np.eye(most)
        everything[..., 1:] = self._verdict[:, :, None]
        everything -= np.einsum("nmtk,nmtkc->nmtc", verdict_chances, everything)[:, :, :, None, :]
        read = self._is_read[:, :, None, None]
        by_verdict = np.where(read, everything[rows, places, :, chosen], 0.0).sum(axis=1)
        slopes = np.concatenate([by_truth, by_verdict], axis=2)
        scores = np.einsum("nt,ntc->nc", chances, slopes)
        information = self._ridge * np.eye(len(coefficients))
        information[:first, :first] += np.einsum(
            "nk,nkc,nkd->cd", prior, by_truth, by_truth, optimize=True
        )
        shares = chances[:, None, :, None] * verdict_chances * self._is_read[:, :, None, None]
        flat = everything.reshape(-1, 1 + second)
        information[first:, first:] += flat.T @ (flat * shares.reshape(-1, 1))
        flat = slopes.reshape(-1, slopes.shape[2])
        information -= flat.T @ (flat * chances.reshape(-1, 1)) - scores.T @ scores
        return _Fit(coefficients, value, information, scores, chances)

    def _measure_effect(self, fit: _Fit, number: int, step: float) -> tuple[float, Floats]:
        """Return the effect of a step in a property, and its gradient by the coefficients."""
        import numpy as np

        data, (first, second) = self._data, self._sizes
        place = second - data.properties.shape[2] + number
        right = fit.coefficients[first]
        of_verdict = fit.coefficients[first + 1 :]
        slope, values = np.zeros(len(fit.coefficients)), []
        most = self._is_option.shape[1]
        weights = fit.chances[:, None, :] * self._is_read[:, :, None]
        for option in data.raised:
            of_option = weights * self._is_option[:, option][:, None, None]
            total, sides = float(of_option.sum()), []
            if total <= 0:
                continue
            for size in (step, 0.0):
                design = self._verdict.copy()
                design[..., place] = 0.0
                design[:, :, option, place] = size
                linear = np.where(self._is_option[:, None, :], design @ of_verdict, -np.inf)
                verdict_chances = np.exp(_log_softmax(linear[:, :, None, :] + right * np.eye(most)))
                option_chances = verdict_chances[..., option]
                sides.append(float((of_option * option_chances).sum()))
                mean = np.einsum("nmtk,nmkc->nmtc", verdict_chances, design)
                sign = (1.0 if size else -1.0) / (total * len(data.raised))
                shared = of_option * option_chances * sign
                slope[first + 1 :] += np.einsum(
                    "nmt,nmtc->c", shared, design[:, :, option][:, :, None, :] - mean
                )
                of_right = np.eye(most)[option] - np.diagonal(verdict_chances, axis1=2, axis2=3)
                slope[first] += float((shared * of_right).sum())
            values.append((sides[0] - sides[1]) / total)
        return float(np.mean(values)), slope


def _log_softmax(values: Floats) -> Floats:
    import numpy as np

    shifted: Floats = values - values.max(axis=-1, keepdims=True)
    shifted -= np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
    return shifted
