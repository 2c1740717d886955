from decimal import Decimal

import pytest

from trainwright.errors import UserError
from trainwright.plan.cards import card_named
from trainwright.plan.cost import Prices, cost_of, in_currency, parse_price, price_of, prices_file, read_prices
from trainwright.units import Money

CNY = Money(Decimal("2.18"), "CNY")
NONE = Prices({}, {})


@pytest.mark.parametrize(
    "text", ["2.18 CNY/h", "2.18 CNY", "¥2.18/h", "2.18 CNY per hour", "2.18 元/小时", "CNY 2.18 / hr"]
)
def test_a_price_of_an_hour_is_read_in_every_spelling(text):
    assert parse_price(text) == CNY


@pytest.mark.parametrize("text", ["2.18", "2.18/h", "2 CNY/day", "CNY/h", ""])
def test_a_price_without_currency_or_of_another_time_is_refused(text):
    with pytest.raises(ValueError, match="amount with a currency"):
        parse_price(text)


def test_ninety_minutes_cost_one_and_a_half_hours():
    assert str(cost_of(CNY, 5400)) == "3.27 CNY"
    assert cost_of(None, 5400) is None
    assert cost_of(CNY, None) is None


def test_the_command_line_wins_over_the_list_and_the_list_over_the_recipe():
    card = card_named("4090")
    prices = Prices({"RTX 4090": Money(Decimal("1.88"), "CNY")}, {})
    assert price_of(card, 2, "5 CNY/h", "3 CNY", prices).value == Money(Decimal(5), "CNY")
    assert price_of(card, 2, None, "3 CNY", prices).value == Money(Decimal("3.76"), "CNY")  # two cards
    assert price_of(card_named("a100"), 2, None, "3 CNY", prices).value == Money(Decimal(3), "CNY")
    assert price_of(None, 0, None, "3 CNY", prices).value == Money(Decimal(3), "CNY")


def test_a_price_that_nobody_gave_is_not_made_up():
    choice = price_of(card_named("a100"), 1, None, None, NONE)
    assert choice.value is None
    assert "prices.yaml" in choice.because


def test_the_users_list_is_read_by_any_name_of_a_card():
    assert read_prices() == NONE
    prices_file().parent.mkdir(parents=True)
    prices_file().write_text('cards: {a100-80g: 6.68 CNY/h, "4090": $0.35/h, 3090: 1.5 CNY}\nrates: {usd: 7.1 CNY}\n')
    prices = read_prices()
    assert prices.cards == {
        "A100 80GB": Money(Decimal("6.68"), "CNY"),
        "RTX 4090": Money(Decimal("0.35"), "USD"),
        "RTX 3090": Money(Decimal("1.5"), "CNY"),
    }
    assert prices.rates == {"USD": Money(Decimal("7.1"), "CNY")}


@pytest.mark.parametrize("text", ["cards: {a100-80g: 6.68}", "cards: {a999: 1 CNY}", "card: {a100: 1 CNY}", "- a", "{"])
def test_a_list_that_cannot_be_read_is_named_with_how_to_write_it(text):
    prices_file().parent.mkdir(parents=True)
    prices_file().write_text(text)
    with pytest.raises(UserError, match=r"prices\.yaml.*cards: \{a100-80g: 6\.68 CNY/h\}"):
        read_prices()


def test_nothing_is_converted_without_a_rate():
    dollars = Money(Decimal(10), "USD")
    assert in_currency(dollars, "CNY", {}) is None
    rates = {"USD": Money(Decimal("7.1"), "CNY")}
    assert in_currency(dollars, "CNY", rates) == Money(Decimal(71), "CNY")
    assert in_currency(Money(Decimal(71), "CNY"), "USD", rates) == dollars
    assert in_currency(dollars, "EUR", rates) is None
    assert in_currency(dollars, "USD", {}) == dollars
