"""One request to a model with its retries, and the choice of a replica for each attempt.

An attempt waits for the budget, a reachable replica, the rate limits (requests and tokens a minute)
and a slot of the concurrency limit (`llm/http/limits.py`). `llm/http/exchange.py` sends it,
`llm/responses/outcome.py` classifies its response, and `llm/retries/retry.py` decides whether and
when to retry.

Guarantee: a request raises only `EndpointError`, a `RunStop` if no further request may be sent, or
the error of a ledger that cannot record the response (the disk stays full).
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import replace
from typing import Any, cast

import aiohttp

from judgegym.llm import tracing, wire
from judgegym.llm.at_once import request_in_flight
from judgegym.llm.batches.queue import BATCHES, Batches
from judgegym.llm.cost.budget import Budget
from judgegym.llm.cost.images import count_image_tokens
from judgegym.llm.cost.models import describe_retirement, explain_retirement, warn_if_retired
from judgegym.llm.errors import EndpointError, FailureKind, RunStop
from judgegym.llm.http.exchange import Exchange
from judgegym.llm.http.limits import LimitedClient
from judgegym.llm.ledger import NOTHING_PAID, RequestRecord, Upload
from judgegym.llm.providers import load_api
from judgegym.llm.providers.prefixes import SharedPrefixes
from judgegym.llm.reachability import ACCOUNT_STATUSES, ThrottleMonitor
from judgegym.llm.refusals.request_fields import FIELDS, only_streams, refuses
from judgegym.llm.refusals.response_format import finalize_refusal, has_format
from judgegym.llm.responses.outcome import (
    AttemptFailure,
    ChatSuccess,
    Habits,
    Outcome,
    PlainResponse,
    parse_response,
)
from judgegym.llm.retries.limits import LONG_WAIT_S
from judgegym.llm.retries.retry import RetryPolicy
from judgegym.llm.types import ChatResponse, ChatSettings, Replica
from judgegym.llm.urls import add_version
from judgegym.llm.usage import count_tokens
from judgegym.llm.wire import JSON, Choice, Message

logger = logging.getLogger(__name__)

_CLOCK_S = 5.0  # what may pass between an answer and the look at its wait


class Transport(LimitedClient):
    """Sends requests to the replicas of one model; the base class of `ChatClient`.

    Attributes:
        api: the model's API.
        exchange: sends a single attempt.
        changed: the refused fields that answered requests left out or renamed.
        limit_notice: a sentence, if thinking has used up the limit of a completion; else `None`.
        image_refusal: how it refused images; no more are sent then.
        last_failure: the last failed attempt since a success; `None` after a success.
        siblings: clients of other models for the same judge (`ChatClient.sibling`), whose status
            this client also reports.
        is_spare: tells whether the judge can do without this model, such as a jury with enough
            other members.
    """

    def __init__(
        self,
        settings: ChatSettings,
        session: aiohttp.ClientSession | None = None,
        budget: Budget | None = None,
    ) -> None:
        """Prepare the transport.

        The session is opened by the first request, unless one is passed in, which stays open.

        Raises:
            SettingsError: the settings have fields that the model's API does not accept.
        """
        super().__init__(settings, budget)
        for endpoint in settings.endpoints:
            warn_if_retired(endpoint.base_url, endpoint.model, settings.model_setting)
        self.api = load_api(settings.endpoints[0].api)
        where = f"--{settings.prefix}"
        self.api.check(settings.extra_body, f"{where}extra_body")
        self.api.check({"temperature": settings.temperature}, f"{where}temperature")
        shortest = self.api.shortest_prefix(settings.endpoints[0].model)
        self._prefixes = None if shortest is None else SharedPrefixes(shortest)
        self._retries = RetryPolicy(
            settings.max_retries, settings.retry_delay_s, settings.deadline_s
        )
        self._live_limit: AbstractAsyncContextManager[object] = nullcontext()
        self._live_prices = settings.prices
        if (batch := settings.batch) is not None:
            self._prefixes = None
            self._line_retries = RetryPolicy(batch.retries, 0.0, float("inf"))
            self._live_limit, self._live_prices = (
                asyncio.Semaphore(batch.live_concurrency),
                batch.live_prices,
            )
        self._batches: Batches | None = None
        self.changed: set[str] = set()
        self.limit_notice: str | None = None
        self.image_refusal: str | None = None
        self._throttling = ThrottleMonitor(settings)
        self.last_failure: EndpointError | None = None
        self.exchange = Exchange(settings, self.api, self.fields, session)
        self.siblings: list[Transport] = []
        self.is_spare: Callable[[], bool] = lambda: False

    @property
    def waiting(self) -> str | None:
        """What all calls wait for, in one sentence; `None` if nothing.

        Such as an endpoint that refuses connections.
        """
        reasons: list[str | None] = []
        if not (self.is_given_up and self.is_spare()):
            reasons += [self.reachability.waiting, self.breaker.waiting]
        if self._batches is not None:
            reasons.append(self._batches.waiting)
        siblings = (sibling.waiting for sibling in self.siblings)
        return next(filter(None, (*reasons, *siblings)), None)

    @property
    def throttle_notice(self) -> str | None:
        """Which endpoint answered only HTTP 429 for a while, in one sentence; `None` if none."""
        return next(
            filter(None, (client._throttling.description for client in (self, *self.siblings))),
            None,
        )

    @property
    def is_given_up(self) -> bool:
        """Whether the model answered nothing until its deadline.

        Calls then fail at once, until a probe succeeds.
        """
        return self.reachability.is_given_up or self.breaker.is_given_up

    @property
    def unreachable_for_s(self) -> float:
        """Seconds for which the model has refused connections; 0 if it does not."""
        seconds = [sibling.unreachable_for_s for sibling in self.siblings]
        if not (self.is_given_up and self.is_spare()):
            seconds.append(self.reachability.unreachable_for_s)
        return max(seconds, default=0.0)

    def subscribe_outage(self, callback: Callable[[], None]) -> None:
        """Register a callback for when the model refuses connections or rejects every request."""
        self.reachability.on_unreachable = self.breaker.on_open = callback
        for sibling in self.siblings:
            sibling.subscribe_outage(callback)

    @property
    def finish_reasons(self) -> Counter[str]:
        """Number of choices by finish reason, including unusable ones."""
        return sum((habits.reasons for habits in self._all_habits), Counter[str]())

    @property
    def served_models(self) -> Counter[str]:
        """Number of responses by the model they name, with its fingerprint if there is one."""
        return sum((habits.served for habits in self._all_habits), Counter[str]())

    @property
    def _all_habits(self) -> Collection[Habits]:
        """The habits of all replicas, which siblings may share."""
        habits: dict[int, Habits] = {}
        for client in (self, *self.siblings):
            for replica in client.reachability.replicas:
                habits[id(replica)] = replica.habits
        return habits.values()

    def note_served(self, earlier: Mapping[str, int]) -> None:
        """Add the models that served an earlier part of the run, so that a change is reported."""
        self.reachability.replicas[0].habits.served.update(earlier)

    @property
    def _retirements(self) -> list[str]:
        """A sentence for each replica whose model has been retired, or will be soon."""
        notices = [
            describe_retirement(endpoint.base_url, endpoint.model, self.settings.model_setting)
            for endpoint in self.settings.endpoints
        ]
        return [f"{notice}." for notice in dict.fromkeys(notices) if notice is not None]

    @property
    def notices(self) -> list[str]:
        """Sentences about how the model and its siblings were asked, which a reader must know."""
        words = [
            notice for notice in (self.formats.description, self.limit_notice) if notice is not None
        ]
        changed = self.fields.describe_refusals(
            self.changed, self.settings.endpoints[0].redacted_url
        )
        notices = [*words, *changed, *self._retirements]
        for sibling in self.siblings:
            notices += sibling.notices
        return notices

    @property
    def refused_fields(self) -> dict[str, dict[str, str]]:
        """How refused request fields were replaced, by model and field, including siblings."""
        effects: dict[str, dict[str, str]] = {}
        for client in (self, *self.siblings):
            becomes = {name: FIELDS[name].becomes for name in sorted(client.changed)}
            if becomes:
                effects.setdefault(client.settings.endpoints[0].model, {}).update(becomes)
        return effects

    async def close(self) -> None:
        """End the probes and close the session, unless it is shared; calls in flight fail."""
        for sibling in self.siblings:
            await sibling.close()
        await self.reachability.close()
        await self.breaker.close()
        await self.exchange.close()

    def request(
        self, messages: Sequence[Message], parameters: Mapping[str, JSON], record: RequestRecord
    ) -> Coroutine[Any, Any, ChatResponse]:
        """Send one request with its retries; `record` notes when it is sent.

        A record with a path and `read` is sent to that path with only the parameters: each item of
        the response is a choice.

        Raises:
            EndpointError: no attempt succeeded.
            RunStop: no attempt may be made any more.
        """
        sending = self._request(messages, parameters, record)
        if tracing.active is None:
            return sending
        return tracing.active.call(
            self.settings.endpoints[0], record.path, messages, parameters, sending
        )

    async def _request(
        self, messages: Sequence[Message], parameters: Mapping[str, JSON], record: RequestRecord
    ) -> ChatResponse:
        shown = {} if record.read is not None else {"messages": wire.messages_json(messages)}
        body = record.body = {"model": "", **shown, **parameters}
        if not self.api.takes_seed:
            body.pop("seed", None)
        if record.read is None:
            self.api.check(body, self.settings.title)
        if self.rates.tokens is not None:
            record.tokens = self._expected_tokens(messages, parameters)
        try:
            if self._prefixes is None or record.read is not None:
                outcome = await self._send(record)
            else:
                async with self._prefixes.turn(self.api.prompt_text(body)) as record.cached:
                    outcome = await self._send(record)
        finally:
            self.meter.usage += record.paid
        assert isinstance(outcome, ChatSuccess)  # of a request without a path, or with `read`
        self.meter.answered += 1
        self.changed.update(record.changed)
        if record.read is None:
            self._note_limit(outcome.choices)
        record.received = outcome.received
        return ChatResponse(
            outcome.choices,
            record.paid,
            record.elapsed(),
            record.attempts,
            prompt_token_ids=outcome.prompt_token_ids,
            prompt_tokens=outcome.tokens.prompt_tokens,
            served=outcome.served,
            refused=record.changed,
        )

    def _note_limit(self, choices: Sequence[Choice]) -> None:
        """Log once that thinking used up the limit of a completion, so that its text is empty."""
        if self.limit_notice is not None or not any(
            choice.state == "cut_off" and wire.is_blank(choice.text) for choice in choices
        ):
            return
        setting = self.settings.limit_setting or "max_tokens"
        self.limit_notice = (
            f"{self.settings.display_name} returned a completion without text: thinking used up "
            f"all its tokens; raise {setting}"
        )
        logger.warning("%s", self.limit_notice)

    async def request_json(
        self, path: str, body: Mapping[str, JSON] | None = None, *, upload: Upload | None = None
    ) -> JSON:
        """Send a request outside the chat API: POST with a body, else GET.

        Limits and retries apply.

        Args:
            path: the path below the base URL without its version, such as `/tokenize`.
            body: the request's fields, except the model's name.
            upload: a body in place of fields.

        Returns:
            The response's JSON. It is not recorded in a ledger, since it is no completion.

        Raises:
            EndpointError: no attempt succeeded, or the response is not JSON.
        """
        fields = None
        if body is not None:
            fields = {"model": "", **body}
        text = await self.request_text(path, fields, upload)
        try:
            return wire.loads(text)
        except ValueError:
            for replica in self.reachability.replicas:
                text = replica.redact(text, fields)
            quotation = wire.shorten(text, 200)
            message = f"the body is not JSON ({quotation}; at {path})"
            raise EndpointError(
                FailureKind.BROKEN, endpoint=self.settings.endpoints[0].redacted_url, answer=message
            ) from None

    async def request_text(
        self, path: str, fields: dict[str, JSON] | None = None, upload: Upload | None = None
    ) -> str:
        """Return the text of a response; for arguments and errors see `request_json`."""
        outcome = await self._send(RequestRecord(body=fields, path=path, upload=upload))
        assert isinstance(outcome, PlainResponse)  # of a request with a path, without `read`
        return outcome.text

    async def _send(self, call: RequestRecord) -> ChatSuccess | PlainResponse:
        """Make attempts until one succeeds.

        Raises:
            EndpointError: no attempt succeeded.
            RunStop: no attempt succeeded, and no other may be made.
        """
        self.breaker.calls += 1
        head_start, is_first = self.fields.head_start, False
        try:
            if not head_start.is_over and call.path is None and self._find_batch(call) is None:
                is_first = await head_start.begin()
            call.began = time.monotonic()
            while True:
                admitted = await self._admit(call)
                replica = self.reachability.pick()
                outcome = await self._attempt(replica, call, admitted)
                if not isinstance(outcome, AttemptFailure):
                    if has_format(call.body):
                        self.formats.taken_by.add(replica.habits.name)
                    if call.path is None:
                        self.fields.note_response(call, self.settings.endpoints[0])
                    self.breaker.note_response(admitted)
                    self._throttling.note(None)
                    self.last_failure = None
                    return outcome
                await self._pause(
                    replica,
                    call,
                    finalize_refusal(outcome) if has_format(call.body) else outcome,
                    admitted,
                )
        except (EndpointError, RunStop) as error:
            error.attempts, error.usage = call.attempts, call.paid
            raise
        finally:
            if is_first:
                head_start.end(is_over=False)
            self.breaker.calls -= 1
            self.breaker.settle()

    async def _pause(
        self, replica: Replica, call: RequestRecord, outcome: AttemptFailure, admitted: float
    ) -> None:
        """Pause between a failed attempt and the next one.

        Raises:
            EndpointError: there is no further attempt.
            RunStop: no further attempt may be made.
        """
        failure = call.failure = self.last_failure = _make_error(
            replica, outcome, call, self.settings.model_setting
        )
        if outcome.kind is FailureKind.UNREACHABLE:
            call.attempts -= 1  # nothing was sent
            call.note_unsent()
            self.reachability.note_unreachable(replica, failure)
            return
        self._throttling.note(
            failure if outcome.kind is FailureKind.BUSY and outcome.status == 429 else None
        )
        self._end_at_long_wait(call, failure, admitted)
        if call.path is None and (outcome.kind is FailureKind.REJECTED or outcome.status == 501):
            if self.fields.learn(failure, call):
                return
            self._check_settings(failure)
        if outcome.kind is FailureKind.REJECTED and self._rejects_account(replica, call, outcome):
            self.fields.head_start.end(is_over=False)
            began, call.is_probe = time.monotonic(), False
            if await self.breaker.handle_rejection(failure, admitted):
                call.is_probe = not self.breaker.is_closed
                call.unreachable_s += time.monotonic() - began
                return
        if call.upload is not None and call.upload.may_count_twice:
            raise failure
        call.broken += outcome.kind is FailureKind.BROKEN
        retries = self._retries if self._find_batch(call) is None else self._line_retries
        pause = retries.pause(
            failure, failures=call.attempts, broken=call.broken, elapsed=call.elapsed()
        )
        if pause is None:
            raise failure
        if (budget := self._find_budget(call)) is not None:
            # Before the pause: there may be no other attempt.
            await budget.wait_for_room(call.worst)
        await asyncio.sleep(pause)

    def _check_settings(self, failure: EndpointError) -> None:
        """Check that a request was not refused for something that every request needs.

        Raises:
            RunStop: it was.
        """
        settings, excerpt = self.settings, wire.shorten(failure.answer, 200)
        if only_streams(failure):
            raise RunStop(
                f"{settings.display_name} only streams its responses, and JudgeGym does not stream "
                f"({excerpt}): use another endpoint or model ({settings.url_setting})"
            )
        for name, request_field in FIELDS.items():
            if (
                request_field.change is None
                and name in settings.extra_body
                and refuses(failure, name)
            ):
                where = f"--{settings.prefix}extra_body"
                raise RunStop(
                    f"{settings.display_name} refuses {name}, which {where} sets ({excerpt}): "
                    "remove it there"
                )

    def _rejects_account(
        self, replica: Replica, call: RequestRecord, outcome: AttemptFailure
    ) -> bool:
        """Return whether a rejected call of a policy or a judge is about the account."""
        if not self._is_judged(call) or not (
            outcome.is_account or outcome.status in ACCOUNT_STATUSES
        ):
            return False
        # Some endpoints answer 404 to a form that they do not know.
        asks_for_form = has_format(call.body) and replica.habits.name not in self.formats.taken_by
        return not (outcome.status == 404 and asks_for_form)

    def _end_at_long_wait(
        self, call: RequestRecord, failure: EndpointError, admitted: float
    ) -> None:
        """End all calls if no replica takes a request in time, such as after a daily limit.

        Raises:
            EndpointOutage: no replica does.
        """
        least, now = max(LONG_WAIT_S, self.settings.deadline_s), time.monotonic()
        if (
            failure.kind is not FailureKind.BUSY
            or (failure.retry_after or 0.0) < least
            or not self._is_judged(call)
        ):
            return
        if all(
            replica.paused_until >= now + least - _CLOCK_S for replica in self.reachability.replicas
        ):
            self.breaker.put_off(failure, admitted)
        else:
            failure.retry_after = None  # another replica takes it

    def _is_judged(self, call: RequestRecord) -> bool:
        """Return whether a call is of a policy or a judge, and sent live."""
        return (call.path is None or call.read is not None) and self._find_batch(call) is None

    async def _attempt(self, replica: Replica, call: RequestRecord, admitted: float) -> Outcome:
        """Make one attempt in the call's slot; report its outcome to limit, replica and budget.

        Nothing is sent to a replica whose responses have shown that none will be usable. For the
        budget an attempt is finished when it fails or its response is recorded.
        """
        budget, outcome = self._find_budget(call), cast("Outcome | None", replica.habits.refusal)
        if outcome is not None:
            self.limit.release()
            if budget is not None:
                budget.give_back(call.worst)
            return outcome
        call.attempts += 1
        replica.in_flight += 1
        batches, cost = self._find_batch(call), cast("float | None", None)
        try:
            if batches is not None:
                outcome = await self._exchange_in_batch(batches, replica, call)
            else:
                async with self._live_limit:
                    with request_in_flight():
                        outcome = await self.exchange.send(replica, call)
            if outcome.tokens is not None:
                prices = self.settings.prices if batches is not None else self._live_prices
                usage = prices.select_tier(outcome.tokens.prompt_tokens).price_usage(outcome.tokens)
                call.paid = usage if call.paid is NOTHING_PAID else call.paid + usage
                cost = usage.cost
        finally:
            replica.in_flight -= 1
            self.limit.release()
            if budget is not None:
                self._settle(budget, call, outcome, cost, is_line=batches is not None)
        if isinstance(outcome, AttemptFailure):
            self.meter.on_attempt_failed(
                "429" if outcome.status == 429 and not outcome.is_account else outcome.kind.value
            )
        if not isinstance(outcome, AttemptFailure):
            self.limit.note_success()
            replica.note_outcome(succeeded=True)
        elif outcome.kind is not FailureKind.UNREACHABLE:
            replica.note_outcome()
            if outcome.kind is FailureKind.BUSY:
                self.limit.note_overload(admitted)
            if outcome.kind is not FailureKind.REJECTED:
                replica.note_failure(outcome.retry_after, admitted)
        return outcome

    def _find_batch(self, call: RequestRecord) -> Batches | None:
        """Return the batches that a call goes into; `None` if it is sent live."""
        if self.settings.batch is None or call.path is not None or call.is_live:
            return None
        return BATCHES.get()

    async def _exchange_in_batch(
        self, batches: Batches, replica: Replica, call: RequestRecord
    ) -> Outcome:
        """Send a request once in a batch, and classify the response; the wait takes no deadline."""
        assert call.body is not None and self.settings.batch is not None
        self._batches, began = batches, time.monotonic()
        fields = self.api.request(
            self.fields.adapt_body({**call.body, "model": replica.endpoint.model}, call)
        )
        try:
            answer = await batches.ask(self, call, fields)
        except RunStop:
            call.number = None  # it has not failed: a resumed run looks for it in its batch
            raise
        call.unreachable_s += time.monotonic() - began
        if isinstance(answer, str):
            call.is_live = self.settings.batch.is_live_after
            return AttemptFailure(FailureKind.BROKEN, answer)
        outcome = parse_response(answer, replica.habits, self.api.response)
        if isinstance(outcome, AttemptFailure) and outcome.kind is FailureKind.BUSY:
            return replace(
                outcome, kind=FailureKind.BROKEN
            )  # it is sent again so often, and no oftener
        return outcome

    def _expected_tokens(self, messages: Sequence[Message], parameters: Mapping[str, JSON]) -> int:
        """Return the prompt tokens plus the mean completion so far, at first `max_tokens`."""
        prompt = sum(count_tokens(message["content"]) for message in messages)
        prompt += count_image_tokens(
            messages, self.settings.endpoints[0].api, self.settings.endpoints[0].model
        )
        longest = parameters.get("max_tokens")
        if self.meter.answered:
            return prompt + self.meter.usage.completion_tokens // self.meter.answered
        return prompt + (longest if isinstance(longest, int) else 0)


def _make_error(
    replica: Replica, failed: AttemptFailure, call: RequestRecord, model_setting: str
) -> EndpointError:
    """Convert a failed attempt to an error without secrets."""
    answer = wire.shorten(replica.redact(failed.answer, call.body))
    if failed.status == 404:
        answer += explain_retirement(replica.endpoint.model, model_setting)
    if failed.status in (404, 405) and call.path is not None:
        answer += f" (at {call.path})"
    elif (
        failed.status in (404, 405)
        and (meant := add_version(replica.endpoint.base_url)) is not None
    ):
        answer += f" (did you mean {meant}?)"
    return EndpointError(
        failed.kind,
        endpoint=replica.endpoint.redacted_url,
        answer=answer,
        status=failed.status,
        retry_after=failed.retry_after,
    )
