"""The columns that each trainer reads.

Sources, the packages' own code, read on 2026-11-22:

* TRL 1.16.0 (`trl/data_utils.py`, `trl/trainer/sft_trainer.py`, `dpo_trainer.py`,
  `kto_trainer.py`): SFT takes `prompt` and `completion`, and trains on the completion alone, or
  `messages`; DPO takes `prompt`, `chosen`, `rejected`; KTO `prompt`, `completion`, `label`. Each is
  a list of messages ("conversational") or a text.
* OpenRLHF 0.11.2 (`openrlhf/datasets/sft_dataset.py`, `reward_dataset.py`): `--data.input_key input
  --data.output_key output`, and `--data.prompt_key prompt` with `chosen` and `rejected`; lists of
  messages with `--data.apply_chat_template`, texts without it.
* verl 0.9.1 (`verl/utils/dataset/multiturn_sft_dataset.py`, `rl_dataset.py`): SFT reads Parquet
  with `messages`; RL reads `prompt` (messages), `data_source`, `ability`, `reward_model` with
  `ground_truth`, and `extra_info`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import orjson

from judgegym.datasets.files.columns import ENDINGS, PARQUET, is_parquet
from judgegym.datasets.select.candidates import DECIMALS, Turns
from judgegym.judges.conversations.turns import Turn, UnseenPart
from judgegym.llm.errors import DataError, SettingsError
from judgegym.llm.wire import JSON

if TYPE_CHECKING:
    import pyarrow

    from judgegym.datasets.select.options import SelectOptions

ALL_COLUMNS = "all"
"""Stands for all columns of the scored file."""


@dataclass(frozen=True, slots=True)
class OutputRow:
    """The content of a row of the output.

    Attributes:
        number: the row's number, from 0.
        place: the row of the input, for messages.
        prompt: the prompt.
        response: the response; of a pair, the chosen one.
        rejected: the rejected response of a pair.
        label: whether the response is good, in layouts with labels.
        source: the columns of the response's row in the scored file.
        score: the score of the response.
        rejected_score: the score of the rejected response.
    """

    number: int
    place: str
    prompt: Turns
    response: Turns
    rejected: Turns = ()
    label: bool = True
    source: Mapping[str, JSON] = field(default_factory=dict)
    score: float | None = None
    rejected_score: float | None = None


Part = Literal[
    "prompt",
    "response",
    "rejected",
    "label",
    "asked",
    "conversation",
    "source",
    "ability",
    "reference",
    "extra",
]
"""The content of a column.

The first three are messages, or texts with `--conversational=false`; `asked` (the prompt) and
`conversation` (prompt and response) are always messages; the last four are verl's."""


@dataclass(frozen=True, slots=True)
class Layout:
    """The columns of a trainer's input file.

    Attributes:
        about: the trainer that reads it.
        takes: a row is a response, a response with a label, a pair, or a prompt with its best
            response.
        columns: the columns and their contents.
        read_with: the trainer's settings to read it; empty if it needs none.
        endings: the file extensions that the trainer reads.
    """

    about: str
    takes: Literal["responses", "labels", "pairs", "prompts"]
    columns: Mapping[str, Part]
    read_with: str = ""
    endings: Sequence[str] = ENDINGS

    @property
    def can_hold_texts(self) -> bool:
        """Whether it can hold texts in place of messages."""
        return not {"asked", "conversation"} & {*self.columns.values()}

    @property
    def score_columns(self) -> tuple[str, ...]:
        """The columns of scores that its rows can have."""
        if self.takes == "pairs":
            return ("score_chosen", "score_rejected", "margin")
        return ("score",)


def _score_margin(output_row: OutputRow) -> JSON:
    chosen, rejected = output_row.score, output_row.rejected_score
    if chosen is None or rejected is None:
        return None
    return round(chosen - rejected, DECIMALS)


_SCORES: Mapping[str, Callable[[OutputRow], JSON]] = {
    "score": lambda output_row: output_row.score,
    "score_chosen": lambda output_row: output_row.score,
    "score_rejected": lambda output_row: output_row.rejected_score,
    "margin": _score_margin,
}
_OPENRLHF_CHAT = "--data.apply_chat_template"
_PAIR: Mapping[str, Part] = {"prompt": "prompt", "chosen": "response", "rejected": "rejected"}
_VERL_RL: Mapping[str, Part] = {
    "data_source": "source",
    "prompt": "asked",
    "ability": "ability",
    "reward_model": "reference",
    "extra_info": "extra",
}
LAYOUTS: Mapping[str, Layout] = {
    "trl-sft": Layout(
        "TRL's SFTTrainer", "responses", {"prompt": "prompt", "completion": "response"}
    ),
    "trl-sft-messages": Layout(
        "TRL's SFTTrainer, with whole conversations", "responses", {"messages": "conversation"}
    ),
    "trl-dpo": Layout("TRL's DPOTrainer", "pairs", _PAIR),
    "trl-kto": Layout(
        "TRL's KTOTrainer",
        "labels",
        {"prompt": "prompt", "completion": "response", "label": "label"},
    ),
    "openrlhf-sft": Layout(
        "OpenRLHF's train_sft",
        "responses",
        {"input": "prompt", "output": "response"},
        "--data.input_key input --data.output_key output",
    ),
    "openrlhf-dpo": Layout(
        "OpenRLHF's train_dpo and train_rm", "pairs", _PAIR, "--data.prompt_key prompt"
    ),
    "verl-sft": Layout(
        "verl's SFT trainer", "responses", {"messages": "conversation"}, endings=(PARQUET,)
    ),
    "verl-rl": Layout("verl's RL trainers", "prompts", _VERL_RL),
}


def reader_settings(name: str, *, conversational: bool) -> str:
    """Return the trainer's settings to read a layout; empty if it needs none."""
    words = [
        LAYOUTS[name].read_with,
        _OPENRLHF_CHAT if conversational and name.startswith("openrlhf") else "",
    ]
    return " ".join(filter(None, words))


class RowFormatter:
    """Formats selected responses as rows of a layout."""

    def __init__(self, options: SelectOptions, columns: Sequence[str]) -> None:
        """Format rows by the options, from a scored file with these columns.

        Raises:
            SettingsError: a column to keep is missing, or has the name of a column that the
                command writes.
        """
        layout = LAYOUTS[options.layout]
        self._columns = layout.columns
        self._conversational, self._data_source = options.conversational, options.data_source
        self._is_table = is_parquet(
            options.out
        )  # a table's columns have one type: kept values other than texts become JSON text
        self._scores = layout.score_columns if options.keep_scores else ()
        written = {*self._columns, *self._scores}
        self._kept_columns: Sequence[str] = options.kept_columns
        if self._kept_columns == (ALL_COLUMNS,):
            self._kept_columns = [name for name in columns if name not in written]
        for name in self._kept_columns:
            if name not in columns:
                raise SettingsError(
                    f"--keep_columns: there is no column {name} in {options.scored}"
                )
            if name in written:
                raise SettingsError(
                    f"--keep_columns: {name} is a column that select writes itself; leave it out"
                )

    def row(self, output_row: OutputRow) -> dict[str, JSON]:
        """Format a row.

        Raises:
            DataError: a text is required, but there are several turns.
        """
        row = {column: self._value(part, output_row) for column, part in self._columns.items()}
        row.update(
            {column: self._source(output_row.source.get(column)) for column in self._kept_columns}
        )
        return row | {column: _SCORES[column](output_row) for column in self._scores}

    def _source(self, value: JSON) -> JSON:
        """Return a value of the scored file, for a table as text."""
        if not self._is_table or value is None or isinstance(value, str):
            return value
        return orjson.dumps(value, default=str).decode()

    def schema(self) -> pyarrow.Schema:
        """Return the Arrow types of the columns."""
        import pyarrow as pa  # late: an extra

        text = pa.string()
        turns = pa.list_(pa.struct([("role", text), ("content", text)]))
        types: Mapping[Part, pyarrow.DataType] = {
            **dict.fromkeys(
                ("prompt", "response", "rejected"), turns if self._conversational else text
            ),
            **dict.fromkeys(("asked", "conversation"), turns),
            **dict.fromkeys(("source", "ability"), text),
            "label": pa.bool_(),
            "reference": pa.struct([("style", text), ("ground_truth", text)]),
            "extra": pa.struct([("split", text), ("index", pa.int64()), ("prompt", turns)]),
        }
        fields = [(column, types[part]) for column, part in self._columns.items()]
        fields += [(column, text) for column in self._kept_columns]
        return pa.schema([*fields, *((column, pa.float64()) for column in self._scores)])

    def _value(self, part: Part, output_row: OutputRow) -> JSON:
        if part == "prompt" or part == "response" or part == "rejected":
            return self._turns(part, output_row)
        if part == "asked":
            return self._messages(output_row, output_row.prompt)
        if part == "conversation":
            return self._messages(output_row, [*output_row.prompt, *output_row.response])
        if part == "reference":  # for the reward's judge
            return {
                "style": "judge",
                "ground_truth": _text(output_row, output_row.response, "response", "assistant"),
            }
        if part == "extra":
            return {
                "split": "train",
                "index": output_row.number,
                "prompt": self._messages(output_row, output_row.prompt),
            }
        plain: Mapping[str, JSON] = {
            "label": output_row.label,
            "source": self._data_source,
            "ability": "general",
        }
        return plain[part]

    def _messages(self, output_row: OutputRow, turns: Sequence[Turn]) -> list[JSON]:
        """Convert turns to chat messages.

        Raises:
            DataError: a message, or a Parquet column of messages, cannot hold the turn.
        """
        other_content = next(filter(None, map(_list_other_content, turns)), None)
        if other_content is not None and self._is_table:
            other_names = ", ".join(other_content)
            raise DataError(
                f"{output_row.place}: a message has {other_names}, for which Parquet has no column "
                "here; write .jsonl"
            )
        try:
            return [turn.message() for turn in turns]
        except UnseenPart as error:
            raise DataError(f"{output_row.place}: {error}") from None

    def _turns(
        self, part: Literal["prompt", "response", "rejected"], output_row: OutputRow
    ) -> JSON:
        turns: Turns = getattr(output_row, part)
        if self._conversational:
            return self._messages(output_row, turns)
        role = "user" if part == "prompt" else "assistant"
        return _text(output_row, turns, part, role, "; write messages: --conversational=true")


def _text(output_row: OutputRow, turns: Turns, part: str, role: str, hint: str = "") -> str:
    if len(turns) == 1 and turns[0].role == role and not _list_other_content(turns[0]):
        return turns[0].text
    roles = ", ".join(" with ".join([turn.role, *_list_other_content(turn)]) for turn in turns)
    raise DataError(
        f"{output_row.place}: the {part} has the turns {roles}; expected one turn of the {role}, "
        f"as it is written as a text{hint}"
    )


def _list_other_content(turn: Turn) -> list[str]:
    """List a turn's contents that a text cannot express: fields of its message, and images."""
    return [*turn.more, *(["images"] if turn.images else [])]
