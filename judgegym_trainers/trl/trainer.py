"""The trainer that calls a reward function: its group size, and the end of its training.

TRL passes reward functions no trainer, but a bound method of it, `log_metric`. `check_sum` finds
the trainer's reward functions there, and refuses those among which a failed judge would count as 0;
`check_worker` finds those of the asynchronous trainer, which sends them to another process.
Guarantees: with any other caller nothing here fails; `close_after` calls its function once a
training, or an evaluation on its own, has ended, and when a trainer whose training raised an error
is deleted.
"""

from __future__ import annotations

import contextlib
import inspect
import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import CancelledError
from functools import cache
from typing import Any

from judgegym.llm.errors import SettingsError

Close = Callable[[], None]
_FRAMES = 6
"""Number of calling frames that are searched for the trainer."""


def find_trainer(columns: Mapping[str, object]) -> Any:
    """Return the trainer that calls a reward function with these keywords."""
    return getattr(columns.get("log_metric"), "__self__", None)


def find_group_size(trainer: Any, configured: int | None) -> int | None:
    """Return the number of completions of each prompt in this batch; `None` if unknown.

    Evaluations may have their own number. A wrong size that divides the right one would split each
    group silently.

    Args:
        trainer: the trainer, if it is known.
        configured: the user's number, for training.

    Raises:
        SettingsError: the trainer uses another number.
    """
    is_training = getattr(getattr(trainer, "model", None), "training", True)
    number = getattr(trainer, "num_generations" if is_training else "num_generations_eval", None)
    if not isinstance(number, int):
        return configured
    if is_training and configured is not None and number != configured:
        raise SettingsError(
            f"group_size: expected the trainer's num_generations, which is {number}, found "
            f"{configured}"
        )
    return number


def check_sum(trainer: Any, reward_function: object, columns: Mapping[str, object]) -> None:
    """Check that the trainer does not count a failed judge as a score of 0.

    With several functions TRL leaves the `None` of one of them out of a sum (`nansum`). That is
    harmless if a function's weight is 0, if each function scores its own rows, and with
    `normalize_then_sum`, which adds the group's mean in its place. A function that is called by
    another function is not detected.

    Args:
        trainer: the trainer, if it is known.
        reward_function: the function that is called.
        columns: the keywords of the call.

    Raises:
        SettingsError: the trainer adds up several functions' scores of one completion.
    """
    functions = list(getattr(trainer, "reward_funcs", None) or ())
    positions = [index for index, function in enumerate(functions) if function is reward_function]
    if trainer is None or len(functions) < 2 or not positions:
        return
    if getattr(trainer, "multi_objective_aggregation", None) == "normalize_then_sum":
        return
    weights = getattr(trainer, "reward_weights", None)
    if weights is not None and float(weights[positions[0]]) == 0.0:
        return
    rows_of = [getattr(function, "rows_of", None) for function in functions]
    names = columns.get("environment")
    is_named = isinstance(names, Sequence) and all(isinstance(name, str) for name in names)
    if is_named and None not in rows_of and len(set(rows_of)) == len(rows_of):
        return
    trainer_name = type(trainer).__name__
    count = len(functions)
    name = getattr(reward_function, "__name__", "judge")
    raise SettingsError(
        f"reward_funcs: {trainer_name} adds up the scores of {count} functions, and counts the "
        f"missing score of a failed judge ({name}) as 0. Expected one function, "
        "judgegym_trainers.trl.combined_reward([…], weights=[…]), or with GRPO "
        "multi_objective_aggregation='normalize_then_sum'"
    )


def check_worker(pickled: object) -> None:
    """Check that TRL's asynchronous trainer does not count a failed judge as a score of 0.

    Its `AsyncRolloutWorker` also adds up scores by `nansum`, in another process, whose calls pass
    no trainer. It pickles everything for that process in one mapping, and this check runs then. No
    number could replace `None`: an infinite one makes NaN of the advantages of its whole group.

    Args:
        pickled: the reward function or the environment that is pickled.

    Raises:
        SettingsError: its scores are added to those of other functions.
    """
    sent = _sent_to_worker()
    functions = list(sent.get("reward_funcs") or ())
    factory_value = sent.get("environment_factory")
    factories: list[object] = []
    if isinstance(factory_value, Mapping):
        factories = list(factory_value.values())
    elif factory_value is not None:
        factories = [factory_value]
    scoring = list(filter(_gives_rewards, factories))
    sources = [*functions, *scoring]
    if not functions or len(sources) < 2 or not any(source is pickled for source in sources):
        return
    rows_of = [getattr(function, "rows_of", None) for function in functions]
    is_named = "environment" in (getattr(sent.get("dataset"), "column_names", None) or ())
    if is_named and not scoring and None not in rows_of and len(set(rows_of)) == len(rows_of):
        return
    count = len(sources)
    raise SettingsError(
        f"reward_funcs: TRL's asynchronous trainer adds up the scores of {count} functions and "
        "environments, and counts the missing score of a failed judge as 0. Expected one function, "
        "judgegym_trainers.trl.combined_reward([…], weights=[…]), or environment_factory alone"
    )


def _gives_rewards(factory: object) -> bool:
    return not isinstance(factory, type) or hasattr(factory, "get_reward")


def _sent_to_worker() -> Mapping[str, Any]:
    """Return the mapping that TRL's asynchronous worker pickles, from its frame, or nothing."""
    frame = inspect.currentframe()
    for _ in range(_FRAMES):
        frame = frame.f_back if frame is not None else None
        if frame is not None and frame.f_code.co_name == "start":
            sent = getattr(frame.f_locals.get("self"), "_loop_kwargs", None)
            if isinstance(sent, Mapping):
                return sent
    return {}


def check_episodes(trainer: Any) -> None:
    """Check that only environments score the rows of `environment_factory`.

    Raises:
        SettingsError: the trainer adds scores of reward functions to those of environments.
    """
    functions = list(getattr(trainer, "reward_funcs", None) or ())
    other_functions = [function for function in functions if not _is_environment_reward(function)]
    if (
        other_functions
        and getattr(trainer, "multi_objective_aggregation", None) != "normalize_then_sum"
    ):
        trainer_name = type(trainer).__name__
        raise SettingsError(
            f"reward_funcs: {trainer_name} adds their scores to those of environment_factory, and "
            "counts the missing score of a failed judge as 0. Expected environment_factory alone, "
            "reward_funcs=combined_reward([….reward, …]), or "
            "multi_objective_aggregation='normalize_then_sum'"
        )


def _is_environment_reward(function: object) -> bool:
    """Return whether this is TRL's function that asks the environments for `get_reward`."""
    return any(
        isinstance(default, type) for default in getattr(function, "__defaults__", None) or ()
    )


def find_calling_trainer() -> Any:
    """Return the trainer that asks environments for rewards, from the callers' frames.

    TRL passes nothing to an environment; its function `get_reward` has the keywords of a reward
    function in `kwargs`. No other frame's variables are read: Python would keep them alive for as
    long as the frame.
    """
    frame = inspect.currentframe()
    for _ in range(_FRAMES):
        frame = frame.f_back if frame is not None else None
        if frame is not None and frame.f_code.co_name == "get_reward":
            keywords = frame.f_locals.get("kwargs")
            if isinstance(keywords, Mapping):
                return find_trainer(keywords)
    return None


def close_after(trainer: Any, close: Close) -> None:
    """Call `close` when the trainer is done; the same function is called once each time."""
    handler = getattr(trainer, "callback_handler", None)
    if trainer is None or handler is None:
        return
    closing_callback = next(
        (
            callback
            for callback in handler.callbacks
            if isinstance(callback, _closing_callback_type())
        ),
        None,
    )
    if closing_callback is None:
        closing_callback = _closing_callback_type()(
            is_training=getattr(trainer, "is_in_train", True)
        )
        trainer.add_callback(closing_callback)
    if closing_callback.close_with(close):
        call_when_gone(trainer, close)


def make_closing_callback(close: Close) -> object:
    """Return a callback that calls `close` when its trainer is done."""
    closing_callback = _closing_callback_type()(is_training=False)
    closing_callback.close_with(close)
    return closing_callback


@cache
def _closing_callback_type() -> type[Any]:
    # Late: with a reward server two packages are enough, until a trainer calls.
    from transformers import TrainerCallback

    class ClosingCallback(TrainerCallback):
        """Closes everything that the reward functions of one trainer opened."""

        def __init__(self, *, is_training: bool) -> None:
            self._closes: list[Close] = []
            self._is_training = is_training

        def close_with(self, close: Close) -> bool:
            """Call `close` at each end too; return whether it is new."""
            is_new = close not in self._closes
            if is_new:
                self._closes.append(close)
            return is_new

        def on_train_begin(self, *_: object, **further: object) -> None:
            """Keep connections open for evaluations during the training."""
            self._is_training = True

        def on_train_end(self, *_: object, **further: object) -> None:
            """Close all; a later call of a reward function opens again what it needs."""
            self._is_training = False
            for close in self._closes:
                close()

        def on_evaluate(self, *_: object, **further: object) -> None:
            """Close all, unless a training is in progress."""
            if not self._is_training:
                self.on_train_end()

    return ClosingCallback


def call_when_gone(owner: object, close: Close) -> None:
    """Call `close` when `owner` is collected, in a thread of its own.

    The collector may run in any thread, and must not wait.

    At the end of the process it is not called: the background loop closes everything then.
    """
    weakref.finalize(owner, _close_in_thread, close).atexit = False


def _close_in_thread(close: Close) -> None:
    threading.Thread(
        target=_close_unless_ended, args=(close,), name="judgegym-close", daemon=True
    ).start()


def _close_unless_ended(close: Close) -> None:
    """Call `close`; the process may end before it is done, which closes everything as well."""
    with contextlib.suppress(CancelledError):
        close()
