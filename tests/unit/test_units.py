from decimal import Decimal

import pytest

from trainwright import units
from trainwright.errors import DataError, TrainwrightError, error_from_record, error_record


@pytest.mark.parametrize(
    ("text", "share"), [("6%", 0.06), (" 10 % ", 0.1), ("0%", 0), ("100%", 1), ("12.5%", 0.125), ("6％", 0.06)]
)
def test_shares(text, share):
    assert units.parse_share(text) == pytest.approx(share)


@pytest.mark.parametrize("text", ["6", "101%", "-1%", "%", "a%", ""])
def test_what_is_no_share_is_refused(text):
    with pytest.raises(ValueError, match="share"):
        units.parse_share(text)


@pytest.mark.parametrize(("text", "count"), [("2 GiB", 2**31), ("2GB", 2 * 10**9), ("1.5 k", 1536), ("7", 7)])
def test_sizes(text, count):
    assert units.parse_bytes(text) == count


@pytest.mark.parametrize(("text", "seconds"), [("1h30m", 5400), ("90s", 90), ("2 min", 120), ("1d", 86400)])
def test_durations(text, seconds):
    assert units.parse_seconds(text) == seconds


@pytest.mark.parametrize("text", ["", "90", "1x", "h"])
def test_what_is_no_duration_is_refused(text):
    with pytest.raises(ValueError, match="duration"):
        units.parse_seconds(text)


@pytest.mark.parametrize("text", ["3.5 CNY", "CNY 3.5", "¥3.5", "3.5元", "￥ 3.5"])
def test_money_has_an_amount_and_a_currency(text):
    assert units.parse_money(text) == units.Money(Decimal("3.5"), "CNY")


@pytest.mark.parametrize("text", ["3.5", "CNY", "3.5 yuan each", "-3 CNY"])
def test_money_without_a_currency_is_refused(text):
    with pytest.raises(ValueError, match="currency"):
        units.parse_money(text)


def test_money_is_exact():
    assert str(units.parse_money("0.10 USD").times(3)) == "0.30 USD"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(None, "n/a"), (0.25, "0.25s"), (5, "5.0s"), (65, "1m 05s"), (5400, "1h 30m"), (90000, "1d 1h")],
)
def test_durations_for_people(seconds, text):
    assert units.format_seconds(seconds) == text


@pytest.mark.parametrize(("count", "text"), [(None, "n/a"), (512, "512 B"), (1536, "1.5 KiB"), (2**40, "1.0 TiB")])
def test_sizes_for_people(count, text):
    assert units.format_bytes(count) == text


def test_an_error_survives_the_way_through_a_journal():
    error = error_from_record(error_record(DataError("No rows.", "Add some.")))
    assert type(error) is DataError
    assert (str(error), error.exit_code) == ("No rows. Add some.", 2)
    assert type(error_from_record({"type": "Unheard", "message": "x"})) is TrainwrightError
