from judges.offline.rng import Dice, unit


def test_units_are_those_of_every_process_and_version() -> None:
    assert unit("key") == unit(b"key") == 0.1735974055427727
    dice = Dice(b"key")
    assert [dice.unit(), dice.unit()] == [0.29595193998164293, 0.09252909754166427]


def test_units_spread_over_the_interval() -> None:
    drawn = [unit(str(number)) for number in range(4000)]
    assert all(0 <= value < 1 for value in drawn)
    for tenth in range(10):
        assert 300 < sum(int(value * 10) == tenth for value in drawn) < 500


def test_a_stream_goes_on_and_equal_keys_agree() -> None:
    one, two = Dice(b"a"), Dice(b"a")
    first = [one.unit() for _ in range(5)]
    assert first == [two.unit() for _ in range(5)]
    assert len(set(first)) == 5
    assert first != [Dice(b"b").unit() for _ in range(5)]


def test_picks_and_orders_reach_every_option() -> None:
    dice = Dice(b"options")
    assert {dice.pick("abc") for _ in range(100)} == set("abc")
    orders = {tuple(dice.shuffled("abc")) for _ in range(200)}
    assert len(orders) == 6
    assert all(2 <= dice.between(2, 5) < 5 for _ in range(100))
