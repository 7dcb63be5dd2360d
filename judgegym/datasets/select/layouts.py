"""The columns that trainers read.

Read from the packages' own code on 2026-11-22:

* TRL 1.16.0 (`trl/data_utils.py`, `trl/trainer/sft_trainer.py`, `dpo_trainer.py`, `kto_trainer.py`): SFT takes `prompt`
  and `completion`, and trains on the completion alone, or `messages`; DPO takes `prompt`, `chosen`, `rejected`; KTO
  `prompt`, `completion`, `label`. Each is a list of messages ("conversational") or a text.
* OpenRLHF 0.11.2 (`openrlhf/datasets/sft_dataset.py`, `reward_dataset.py`): `--data.input_key input --data.output_key
  output`, and `--data.prompt_key prompt` with `chosen` and `rejected`; lists of messages with
  `--data.apply_chat_template`, texts without it.
* verl 0.9.1 (`verl/utils/dataset/multiturn_sft_dataset.py`, `rl_dataset.py`): SFT reads Parquet with `messages`; RL
  reads `prompt` (messages), `data_source`, `ability`, `reward_model` with `ground_truth`, and `extra_info`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from environments.data.transcripts import TranscriptTurn
from judgegym.datasets.select.conversations import Turns
from judges.llm.errors import DataError
from judges.llm.wire import JSON

if TYPE_CHECKING:
    import pyarrow

Selected = Literal["responses", "labels", "pairs", "prompts"]
"""What a layout has a row of: a response, one with a label, a pair, or a prompt with its best response."""


@dataclass(frozen=True, slots=True)
class Picked:
    """What becomes a row of the output.

    Attributes:
        number: of the row, from 0.
        place: the row of the input, for messages.
        prompt: the prompt.
        response: the response, or the chosen one.
        rejected: the rejected one of a pair.
        label: whether the response is a good one, if that is asked.
    """

    number: int
    place: str
    prompt: Turns
    response: Turns
    rejected: Turns = ()
    label: bool = True


Kind: TypeAlias = "Literal['turns', 'messages', 'label']"


@dataclass(frozen=True, slots=True)
class Layout:
    """A layout.

    Attributes:
        about: who reads it.
        takes: what a row of it is.
        columns: the columns and what is in them; `turns` are messages, or a text if that is asked.
        endings: the files that its trainer reads.
        read_with: the trainer's own settings to read it; empty if it needs none.
    """

    about: str
    takes: Selected
    columns: Mapping[str, Kind]
    read_with: str = ""
    endings: Sequence[str] = (".jsonl", ".parquet")

    @property
    def texts(self) -> bool:
        """Whether it can hold texts in the place of messages."""
        return "messages" not in self.columns.values()


_OPENRLHF_CHAT = "--data.apply_chat_template"
LAYOUTS: Mapping[str, Layout] = {
    "trl-sft": Layout("TRL's SFTTrainer", "responses", {"prompt": "turns", "completion": "turns"}),
    "trl-sft-messages": Layout("TRL's SFTTrainer, with whole conversations", "responses", {"messages": "messages"}),
    "trl-dpo": Layout("TRL's DPOTrainer", "pairs", {"prompt": "turns", "chosen": "turns", "rejected": "turns"}),
    "trl-kto": Layout("TRL's KTOTrainer", "labels", {"prompt": "turns", "completion": "turns", "label": "label"}),
    "openrlhf-sft": Layout(
        "OpenRLHF's train_sft",
        "responses",
        {"input": "turns", "output": "turns"},
        "--data.input_key input --data.output_key output",
    ),
    "openrlhf-dpo": Layout(
        "OpenRLHF's train_dpo and train_rm",
        "pairs",
        {"prompt": "turns", "chosen": "turns", "rejected": "turns"},
        "--data.prompt_key prompt",
    ),
    "verl-sft": Layout("verl's SFT trainer", "responses", {"messages": "messages"}, endings=(".parquet",)),
    "verl-rl": Layout("verl's RL trainers", "prompts", {"prompt": "messages"}),
}


def read_with(name: str, *, conversational: bool) -> str:
    """The trainer's own settings to read a layout; empty if it needs none."""
    words = [LAYOUTS[name].read_with, _OPENRLHF_CHAT if conversational and name.startswith("openrlhf") else ""]
    return " ".join(filter(None, words))


class Rows:
    """Makes the rows of a layout."""

    def __init__(self, name: str, *, conversational: bool, data_source: str) -> None:
        """Make rows of the layout with this name.

        Args:
            name: of `LAYOUTS`.
            conversational: messages, and no texts.
            data_source: of verl's RL rows, by which it finds the function that rewards them.
        """
        self.layout, self._name = LAYOUTS[name], name
        self._conversational = conversational
        self._data_source = data_source

    def row(self, picked: Picked) -> dict[str, JSON]:
        """A row.

        Raises:
            DataError: a text is asked for, and there are several turns.
        """
        if self._name == "verl-rl":
            return self._verl(picked)
        values: dict[str, JSON] = {}
        for column, kind in self.layout.columns.items():
            if kind == "messages":
                values[column] = messages([*picked.prompt, *picked.response])
            elif kind == "label":
                values[column] = picked.label
            elif column in ("prompt", "input"):
                values[column] = self._asked(picked)
            else:
                values[column] = self._answer(picked, picked.rejected if column == "rejected" else picked.response)
        return values

    def schema(self) -> pyarrow.Schema:
        """The Arrow types of the columns."""
        import pyarrow as pa  # late: an extra

        turns = pa.list_(pa.struct([("role", pa.string()), ("content", pa.string())]))
        types = {"turns": turns if self._conversational else pa.string(), "messages": turns, "label": pa.bool_()}
        fields = [(column, types[kind]) for column, kind in self.layout.columns.items()]
        if self._name == "verl-rl":
            reward_model = pa.struct([("style", pa.string()), ("ground_truth", pa.string())])
            extra_info = pa.struct([("split", pa.string()), ("index", pa.int64()), ("prompt", turns)])
            texts = [(name, pa.string()) for name in ("data_source", "ability")]
            fields = [texts[0], *fields, texts[1], ("reward_model", reward_model), ("extra_info", extra_info)]
        return pa.schema(fields)

    def _verl(self, picked: Picked) -> dict[str, JSON]:
        """A row of verl's RL trainers: the response is the reference (`ground_truth`) of the judge that rewards."""
        prompt = messages(picked.prompt)
        return {
            "data_source": self._data_source,
            "prompt": prompt,
            "ability": "general",
            "reward_model": {"style": "judge", "ground_truth": self._text(picked, picked.response, "response")},
            "extra_info": {"split": "train", "index": picked.number, "prompt": prompt},
        }

    def _asked(self, picked: Picked) -> JSON:
        if self._conversational:
            return messages(picked.prompt)
        return self._text(picked, picked.prompt, "prompt", "user")

    def _answer(self, picked: Picked, turns: Turns) -> JSON:
        return messages(turns) if self._conversational else self._text(picked, turns, "response")

    def _text(self, picked: Picked, turns: Turns, what: str, role: str = "assistant") -> str:
        if len(turns) == 1 and turns[0].role == role:
            return turns[0].content
        roles = ", ".join(turn.role for turn in turns)
        message = f"the {what} has the turns {roles}, and a text has one turn of the {role}"
        hint = "" if self._name == "verl-rl" else "; write messages: --conversational=true"
        raise DataError(f"{picked.place}: {message}{hint}")


def messages(turns: Sequence[TranscriptTurn]) -> list[JSON]:
    """Turns as chat messages."""
    return [{"role": turn.role, "content": turn.content} for turn in turns]
