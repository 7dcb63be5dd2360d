"""Print the worst rows of a run, with the judge's prompts and responses, from its files alone."""

import heapq
import sys
from pathlib import Path

from judgegym.engine.runs.recorded_calls import RecordedCall
from judgegym.llm.errors import RunDirectoryError
from judgegym.reports.results.calls import CallsOfRows
from judgegym.reports.results.run import SavedRun

# Escape sequences in a model's text would control the terminal.
CONTROLS = {
    code: "\N{REPLACEMENT CHARACTER}"
    for code in (*range(32), *range(127, 160))
    if chr(code) not in "\n\t"
}


def show(title: str, text: str) -> None:
    print(f"\n{title}\n{text}".translate(CONTROLS))


def mark_verdict(call: RecordedCall) -> str:
    """Return the response to a call, with the verdict in brackets."""
    text = call.answer.first.text
    if call.verdict_at is None:
        return text
    start, end = call.verdict_at
    return f"{text[:start]}⟦{text[start:end]}⟧{text[end:]}"


def show_worst(path: Path, count: int) -> None:
    """Print the rows that add the least to the result, the worst first."""
    run = SavedRun.open(path)
    if run.headline is not None:
        print(
            f"{run.environment}: {run.policy}, judged by {run.judge}: {run.headline.words} "
            f"{run.headline.value:.4f}"
        )
    shares = (
        (sample.headline.value, sample.uid)
        for sample in run.samples()
        if sample.headline is not None
    )
    worst = heapq.nsmallest(count, shares)
    calls = CallsOfRows.read(path, [uid for _, uid in worst])
    for value, uid in worst:
        sample = run.read_sample(uid)
        show(f"# {uid}: {value:g}", sample.question)
        for number, completion in enumerate(sample.completions, start=1):
            show(f"## completion {number}", completion.answer)
        for title, text in sample.texts.items():
            show(f"## {title}", text)
        for call in calls.select(uid):
            for message in call.messages or ():  # none with --keep_calls=False
                show(f"## {call.component}, {message['role']}", message["content"])
            show(
                f"## {call.component}, {call.model} answered in {call.answer.latency_s:.1f} s",
                mark_verdict(call),
            )


if __name__ == "__main__":
    try:
        show_worst(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 3)
    except RunDirectoryError as error:
        sys.exit(f"error: {error}")
    except (IndexError, ValueError):
        sys.exit("usage: worst_rows.py RUN [COUNT]")
