"""Which place a response takes: each rule, at times that the test says."""

from __future__ import annotations

from typing import Any

import pytest

from judgegym.server.cohorts import Cohort, MemberSlot, Register, Sign, sign_of

KEY = "key"
SIZE, LATE_S, KEPT_S = 3, 10.0, 100.0


class Desk:
    """Seats responses as the cohorts of a process do, on a clock that the test sets."""

    def __init__(self, *, most_kept: int = 100) -> None:
        self.register: Register = Register(late_s=LATE_S, kept_s=KEPT_S, most_kept=most_kept)
        self.now = 0.0

    def seat(
        self, member: str | None, text: str, *, key: str = KEY, is_waiting: bool = True
    ) -> tuple[Cohort, MemberSlot]:
        """The place of a response that is not late."""
        sign = sign_of(member, text, is_empty=not text)
        self.register.expire(self.now)
        found = self.register.repeated(key, sign)
        if found is None:
            assert self.register.missed(key, sign, self.now) is None
            cohort = self.register.joinable(key, sign)
            if cohort is None:
                cohort = Cohort(key, SIZE)
                self.register.add(cohort)
            found = cohort, MemberSlot(sign)
            self.register.seat(*found)
            if cohort.is_full:
                self.close(cohort)
        found[1].waiting += is_waiting
        return found

    def late(self, member: str | None, text: str) -> Cohort | None:
        """The cohort for which a response is late."""
        sign = sign_of(member, text)
        self.register.expire(self.now)
        assert self.register.repeated(KEY, sign) is None
        cohort = self.register.missed(KEY, sign, self.now)
        if cohort is not None and sign not in cohort.late:
            cohort.misses(sign)
        return cohort

    def close(self, cohort: Cohort) -> None:
        self.register.closed(cohort, self.now)

    def judge(self, cohort: Cohort) -> None:
        if cohort.closed_at is None:
            self.close(cohort)
        for place in cohort.places:
            place.waiting = 0
        self.register.judged(cohort, self.now)


def test_members_join_one_cohort_until_it_is_full_and_the_next_opens_another() -> None:
    desk = Desk()
    cohorts = [desk.seat(str(number), f"text {number}")[0] for number in range(2 * SIZE)]
    assert cohorts[:SIZE] == [cohorts[0]] * SIZE
    assert cohorts[SIZE:] == [cohorts[SIZE]] * SIZE
    assert cohorts[0] is not cohorts[SIZE]


def test_response_of_another_key_joins_another_cohort() -> None:
    desk = Desk()
    assert desk.seat("0", "A")[0] is not desk.seat("1", "B", key="other")[0]


def test_repeated_member_has_its_place_while_open_while_judged_and_after() -> None:
    desk = Desk()
    first = desk.seat("0", "A")
    assert desk.seat("0", "A") == first
    assert len(first[0].places) == 1
    desk.close(first[0])
    assert desk.seat("0", "A") == first
    desk.judge(first[0])
    desk.now += KEPT_S
    assert desk.seat("0", "A") == first


def test_repeated_member_opens_a_new_cohort_when_its_result_is_forgotten() -> None:
    desk = Desk()
    first, _ = desk.seat("0", "A")
    desk.judge(first)
    desk.now += KEPT_S + 1
    assert desk.seat("0", "A")[0] is not first


def test_member_with_another_text_is_in_the_next_epochs_cohort() -> None:
    desk = Desk()
    first = [desk.seat(str(number), f"epoch 1, {number}")[0] for number in range(2)]
    second = [desk.seat(str(number), f"epoch 2, {number}")[0] for number in range(2)]
    assert first[0] is first[1]
    assert second[0] is second[1]
    assert first[0] is not second[0]


def test_member_of_the_next_epoch_does_not_join_a_cohort_that_was_judged() -> None:
    desk = Desk()
    first, _ = desk.seat("0", "epoch 1")
    desk.judge(first)
    second, _ = desk.seat("0", "epoch 2")
    assert second is not first
    assert desk.seat("0", "epoch 1")[0] is first, "a retry of the first epoch still finds its place"


def test_oldest_open_cohort_is_joined_first() -> None:
    desk = Desk()
    first, _ = desk.seat("0", "epoch 1")
    desk.seat("0", "epoch 2")
    assert desk.seat("1", "whose?")[0] is first


def test_equal_text_without_an_id_is_another_member_while_the_first_caller_waits() -> None:
    desk = Desk()
    cohort, place = desk.seat(None, "A")
    assert desk.seat(None, "A")[1] is not place
    assert len(cohort.places) == 2


def test_equal_text_without_an_id_is_a_retry_when_the_first_caller_has_left() -> None:
    desk = Desk()
    first = desk.seat(None, "A")
    first[1].waiting -= 1
    assert desk.seat(None, "A") == first


def test_equal_text_without_an_id_is_a_retry_when_the_cohort_is_judged() -> None:
    desk = Desk()
    first = desk.seat(None, "A")
    desk.judge(first[0])
    assert desk.seat(None, "A") == first


def test_equal_text_of_two_members_with_ids_has_two_places() -> None:
    desk = Desk()
    cohort, place = desk.seat("0", "A")
    assert desk.seat("1", "A")[1] is not place
    assert len(cohort.places) == 2


def test_empty_response_without_an_id_always_takes_a_place_of_its_own() -> None:
    desk = Desk()
    cohort, _ = desk.seat(None, "", is_waiting=False)
    desk.seat(None, "", is_waiting=False)
    assert len(cohort.places) == 2


def test_empty_response_with_an_id_has_one_place_however_often_it_comes() -> None:
    desk = Desk()
    cohort, _ = desk.seat("0", "", is_waiting=False)
    desk.seat("0", "", is_waiting=False)
    assert len(cohort.places) == 1


def test_member_that_comes_after_a_short_cohort_was_closed_is_late_for_it_within_the_window() -> None:
    for member in ("1", None):
        desk = Desk()
        cohort, _ = desk.seat("0", "A")
        desk.close(cohort)
        desk.now += LATE_S
        assert desk.late(member, "B") is cohort
        desk.now += 0.1
        assert desk.late(member, "C") is None


def test_late_member_that_comes_again_is_still_late_and_counts_once() -> None:
    desk = Desk()
    cohort, _ = desk.seat("0", "A")
    desk.close(cohort)
    assert [desk.late("1", "B"), desk.late("1", "B")] == [cohort, cohort]
    assert len(cohort.late) == 1


def test_no_more_members_are_late_than_the_cohort_lacks() -> None:
    desk = Desk()
    cohort, _ = desk.seat(None, "A")
    desk.close(cohort)
    assert [desk.late(None, text) for text in "BCD"] == [cohort, cohort, None]


def test_next_epoch_is_not_late_for_a_short_cohort_that_has_its_id() -> None:
    desk = Desk()
    cohort, _ = desk.seat("0", "A")
    desk.close(cohort)
    assert desk.late("1", "B") is cohort
    assert [desk.late("0", "epoch 2"), desk.late("1", "epoch 2")] == [None, None]


def test_nobody_is_late_for_a_full_cohort() -> None:
    desk = Desk()
    for number in range(SIZE):
        desk.seat(str(number), f"text {number}")
    assert desk.late("3", "another") is None


def test_results_are_kept_in_a_bounded_number() -> None:
    desk = Desk(most_kept=5)
    cohorts = [desk.seat("0", "A", key=str(number))[0] for number in range(4)]
    for number, cohort in enumerate(cohorts):
        desk.seat("1", "B", key=str(number))
        desk.judge(cohort)
    assert len(desk.register) == 2
    assert desk.seat("0", "A", key="0")[0] is not cohorts[0]
    assert desk.seat("0", "A", key="3")[0] is cohorts[3]


def test_nothing_is_left_of_cohorts_whose_time_is_over() -> None:
    desk = Desk()
    for number in range(10):
        desk.judge(desk.seat("0", "A", key=str(number))[0])
    desk.now += KEPT_S + 1
    desk.register.expire(desk.now)
    assert len(desk.register) == 0


def test_response_looks_at_no_cohort_that_is_full_and_not_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise a prompt that is sampled again and again would cost more with each group."""
    desk, looked_at = Desk(), list[Cohort]()
    for number in range(10 * SIZE):
        desk.seat(str(number), f"text {number}")
    for name in ("place_of", "has", "lacks"):
        asked = getattr(Cohort, name)

        def noted(cohort: Cohort, *arguments: Any, asked: Any = asked) -> Any:
            looked_at.append(cohort)
            return asked(cohort, *arguments)

        monkeypatch.setattr(Cohort, name, noted)
    repeated, _ = desk.seat("3", "text 3")
    new, _ = desk.seat("0", "another text")
    desk.seat("1", "another text")
    assert {*looked_at} == {repeated, new}


def test_sign_does_not_hold_the_text() -> None:
    text = "A long response. " * 1000
    assert sign_of("0", text) == Sign("0", sign_of(None, text).text)
    assert len(sign_of("0", text).text) == 32


def test_sign_of_a_long_id_is_short_and_differs_from_that_of_another() -> None:
    one, other = (sign_of("x" * 100_000 + end, "text") for end in "ab")
    assert one.member != other.member
    assert one == sign_of("x" * 100_000 + "a", "text")
    assert len(one.member or "") < 100
