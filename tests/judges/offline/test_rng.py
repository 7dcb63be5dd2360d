from judges.offline.rng import seeded, unit


def test_numbers_of_a_key_are_those_of_every_process_and_version() -> None:
    assert unit("key") == 0.1735974055427727
    assert seeded("a", 1).random() == seeded("a", "1").random() == 0.37957085360027676
    assert len({seeded("a", number).random() for number in range(50)}) == 50


def test_units_spread_over_the_interval() -> None:
    drawn = [unit(str(number)) for number in range(4000)]
    assert all(0 <= value < 1 for value in drawn)
    assert all(300 < sum(int(value * 10) == tenth for value in drawn) < 500 for tenth in range(10))
