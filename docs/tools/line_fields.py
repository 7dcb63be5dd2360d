"""Show the fields of the lines of a run's files that several writers make up.

A block is a template in the notation of `file_fields.py`. A line `<Alarm>` in it stands for the
fields of that dataclass, and `<DatasetRead[]>` for those of a list's objects.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from docs.tools.file_fields import list_lines, model_lines
from judgegym.data.rows import DatasetRead
from judgegym.environments.training.group_ledger import LedgerGroup
from judgegym.llm.cost.budget import Expense
from judgegym.llm.types import ChatResponse
from judgegym.monitoring.alarms import Alarm, RolloutLocation
from judgegym.monitoring.group import MonitorRollout
from judgegym.reports.labels.correction import Correction
from judgegym.statistics.gap_detector import GapCheck

_MODEL = re.compile(r"^(?P<indent> *)<(?P<name>\w+)(?P<is_list>\[\])?>$")
_MODELS: Mapping[str, type] = {
    model.__name__: model
    for model in (
        Alarm,
        LedgerGroup,
        ChatResponse,
        Correction,
        DatasetRead,
        Expense,
        GapCheck,
        MonitorRollout,
        RolloutLocation,
    )
}

_METRICS = """\
results:
  all: object of numbers or nulls  # metrics by full name; null if not known
  atropos|{environment}_eval|0: object of numbers or nulls  # the same
config_general:
  environment: text
  model_name: text  # what was evaluated
  judge_model_name: text
  date: text  # of the end, UTC, ISO 8601
  judgegym_version: text
  total_evaluation_time_seconds: text  # of this command; a number in a text, as in Atropos
  generation_parameters: object of numbers or nulls  # temperature, max_tokens, judge_temperature, judge_max_tokens
  judge_prompt_digests: object of texts  # SHA-256, by the setting that replaces the prompt
  datasets:
  <DatasetRead[]>
  rows:
    selected: whole number
    digest: text  # of everything that the judge saw
  protocol: object of values  # settings that determine results, without data and models
  seed: whole number
  headline: text  # full name of the metric
  headline_words: text
  headline_scale: list of numbers or null  # its ends, unless 0 and 1
  metric_notes: object of texts  # metrics whose names may mislead
  finish_reasons: object of values  # by policy and judge: choices by finish_reason, failed attempts included
  served_models: object of values  # by policy and judge: responses by model [fingerprint]
  refused_fields: object of values  # by role and model
  notices: list of texts  # what a reader of the numbers must know
  left_out: object of texts  # why a metric has no value
  unknown: object of texts  # why a metric is null
  tables?:
    - title: text
      header: list of texts
      rows: list of lists
  judges?: object of values  # of a jury or a cascade
  answers_of?: object of values  # the run whose completions these are, of candidates one each
  corrected?:  # with --labels
    <Correction>
"""

_CALLS = """\
sent?: whole number  # a request leaves, counted from 1
again?: whole number  # it leaves once more
unsent?: whole number  # the connection was refused
call?:
  id: whole number or null  # its number; null from the judgment cache
  row: text  # uid
  group: whole number or null
  key: text  # digest of the request, with its number among equal ones
  part?: whole number  # where a completion is a request
  has_verdict: true or false
  verdict_at: list of numbers or null  # code points in the first choice's text
  component: text  # conversation_0/policy, game_1, rollout_2/game_1 …
  vote: whole number
  model: text
  messages?:
    - role: text
      content?: text  # absent if an earlier line has it
      text?: text  # name of a text of 200 characters or more
      images?:
        - mark: text  # [image 1]
          url: text  # in images/, or an address
  parameters: object of values
  answer:  # older runs lack some fields
    <ChatResponse>
failed?: whole number  # no response; with the fields below
row?: text
group?: whole number or null
component?: text
key?: text
error?: text
model?: text
attempts?: whole number
usage?: object of numbers or nulls
row_failed?: text  # uid; a resumed run repeats its calls without a verdict
resumed?: whole number  # requests in flight at the stop
begun?:
  <LedgerGroup>
done?: whole number  # group sent or dropped
state?:
  step: whole number or null
  last_group: whole number
  place: list of numbers or null  # epoch, position
  spent?:  # with a budget, without requests in flight
    <Expense>
"""

_MONITOR = """\
judge?: text  # the server's mount; empty at the root
at: number  # seconds since 1970, UTC
begin?:
  judge: text or null  # null if the policy judges
  gold_judge: text or null
step?:
  step: whole number  # of the trainer; otherwise the groups so far
  groups: whole number  # since the last line
  rollouts: whole number
  values: object of numbers  # monitors by name
  left_out: object of texts
  length_unit: text  # tokens or characters
  limits: object of lists  # lowest and highest value
  beyond: list of texts  # monitors beyond their limits
  causes: object of numbers  # rollouts without a score, by status
  masked: whole number
  criteria: object of lists  # mean, share of 0, share of 1
  parts: object of numbers  # share of the variance within groups
  judge_calls: whole number
  cost: object of numbers or nulls  # US dollars by role
  gold?: object of numbers  # scored, failed, left_out, waiting
gold?:  # scores of a group
  group: whole number
  step: whole number
  uid: text
  scores: object of numbers  # by rollout, from 0
check?:  # both judges compared
  <GapCheck>
  training: number  # means
  gold: number
  order_agreement: number or null  # share of pairs ordered alike
cascade?:  # its judges differ on a row that the cheap one decides
  step: whole number
  rows: whole number
  evidence: number
  <RolloutLocation>
alarm?:
  <Alarm>
row?:  # serve with row_weights=signal
  uid: text
  equal: whole number  # last groups with equal rewards
signal_pair?:  # a group judged twice
  group: whole number
  step: whole number
  uid: text
  first: list of numbers  # rewards
  second: list of numbers
  calls: whole number  # of the second judgment
signal?:  # after 32, 64, … groups and at the end
  step: whole number
  left_out?: text  # why there is no number
  measured?: whole number
  failed?: whole number
  groups?: whole number
  reliability?: object of values  # value; interval (low, high)
  unrepeated?: object of values  # share of the squared advantages: value; interval (low, high)
  no_difference?: number  # share of groups
  no_difference_weight?: number  # their share of the squared advantages
  equal?: number  # share of groups with equal rewards
  levels?: whole number  # different rewards
  advice?: list of objects  # change, calls, before, after, gain
  texts?: list of texts  # the advice in words
  calls?: whole number  # of all second judgments
  advantage?: text
pause?:
  state: text  # paused, resumed
  by: text  # alarm, signal, time, page
  step: whole number
end?:
  gold?: object of numbers
"""

_LIVE = """\
status?:
  at: number
  is_over: true or false
  groups: whole number
  rollouts: whole number
  failures: object of numbers  # rollouts by what went wrong
  reasons: object of texts
  step: whole number
  total_steps?: whole number
  sent?: whole number
  dropped?: object of numbers
  in_progress?: whole number
  unsent?: whole number
  waits_for?: text or null
group?:
  judge?: text
  kept: list of texts  # latest, worst, gap, alarm, over the run
  number: whole number
  step: whole number
  uid: text
  ledger: whole number or null  # its number there
  question: text  # long texts are cut in the middle
  texts: object of texts
  size: whole number
  rewards: list of numbers or nulls
  scores: list of numbers or nulls
  gold: list of numbers or nulls
  rollouts:  # at most 16: lowest and highest rewards
    - number: whole number  # from 0
      gold: number or null  # the gold judge's score
      <MonitorRollout>
"""

_GROUPS = """\
tokens: list of lists  # of each rollout, prompt first
masks: list of lists  # −100 for all that was not sampled
scores: list of numbers  # rewards; the others' mean where a judge failed
inference_logprobs?: list of lists  # 1.0 for the prompt
overrides?:
  - set_advantage_to_zero?: true or false  # its judge failed, or it is in row.ended
generation_params:
  temperature: number
messages?:  # with include_messages
  - - role: text
      content: text
      reward?: number  # in the last message, as the next one
      judgment?:
        status: text
        label: text or null
        explanation: text
        own?: number or null  # judged together: before the comparison with the anchor
        looks?:
          - place: whole number  # from 1
            of: whole number
            points: number
row?:
  uid: text
  group: whole number  # in the ledger
  category: text or null
  question: text
  texts: object of texts
  turn?: whole number  # from 1, where each turn is a group
  ended?: list of numbers  # rollouts that had ended before
  together?:
    judge: text  # listwise, tournament
    anchored: true or false
    orders_agreed: whole number
    orders_pairs: whole number
    calls: whole number
    is_again: true or false  # judged once more
"""

_CRITIQUES = """\
round: whole number  # from 1
uid: text
evaluating_model: text  # the judge
evaluated_model: text
before_score: whole number
before_reasoning: text
raw_response: text
critique: text
after_score: whole number  # a failed round keeps the score
after_reasoning: text
status: text  # revised, unchanged or failed
error: text or null
"""

_TEMPLATES: Mapping[str, str] = {
    "metrics": _METRICS,
    "calls": _CALLS,
    "monitor": _MONITOR,
    "live": _LIVE,
    "groups": _GROUPS,
    "critiques": _CRITIQUES,
}


def line_fields(name: str) -> str:
    """Return the block of `metrics`, `calls`, `monitor`, `live`, `groups` or `critiques`.

    Raises:
        KeyError: another name.
    """
    return "\n".join(["```yaml", *_lines(_TEMPLATES[name]), "```"])


def _lines(template: str) -> Iterator[str]:
    for line in template.splitlines():
        match = _MODEL.match(line)
        if match is None:
            yield line
            continue
        fields = model_lines(_MODELS[match["name"]], match["indent"])
        yield from list_lines(fields) if match["is_list"] else fields
