"""What a run costs. A price comes from the user, never from here; currencies are never converted without a rate."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import yaml

from trainwright.errors import UserError
from trainwright.messages.text import _
from trainwright.plan.cards import Card, card_named
from trainwright.records import Choice
from trainwright.units import Money, parse_money


@dataclass(frozen=True)
class Prices:
    """The user's own list.

    Attributes:
        cards: Price of an hour of one card, by the card's name.
        rates: How much of another currency one unit of a currency is worth, as money.
    """

    cards: Mapping[str, Money]
    rates: Mapping[str, Money]


def prices_file() -> Path:
    """Where the user's prices are (XDG base directory specification)."""
    folder = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    return Path(folder) / "trainwright" / "prices.yaml"


def read_prices(file: Path | None = None) -> Prices:
    """The user's prices; empty without a file. It looks like this::

        cards: {a100-80g: 6.68 CNY/h, "4090": $0.35/h}
        rates: {USD: 7.1 CNY}

    Raises:
        UserError: It is not such a file.
    """
    file = file or prices_file()
    if not file.exists():
        return Prices({}, {})
    try:
        plain: Any = yaml.safe_load(file.read_text(encoding="utf-8")) or {}
        unknown = sorted(set(plain) - {"cards", "rates"})
        if unknown:
            raise ValueError(_("unknown keys: {names}").format(names=", ".join(map(str, unknown))))
        cards = {card_named(str(name)).name: parse_price(str(price)) for name, price in plain.get("cards", {}).items()}
        rates = {str(name).upper(): parse_money(str(rate)) for name, rate in plain.get("rates", {}).items()}
    except (ValueError, TypeError, AttributeError, UserError, yaml.YAMLError) as error:
        raise UserError(
            _("{file} cannot be used: {problem}").format(file=file, problem=str(error).splitlines()[0]),
            _("Write it as: cards: {{a100-80g: 6.68 CNY/h}}").format(),
        ) from None
    return Prices(cards, rates)


def parse_price(text: str) -> Money:
    """A price of an hour: ``2.18 CNY/h``, ``$2/h``, ``2.18 CNY``.

    Raises:
        ValueError: It is no amount with a currency, or that of another time than an hour.
    """
    return parse_money(re.sub(r"\s*(/|per|每)\s*(h|hr|hour|小时|时)\s*$", "", text.strip()))


def price_of(card: Card | None, cards: int, given: str | None, in_recipe: str | None, prices: Prices) -> Choice:
    """What the machine costs an hour, as money, with where that is from; None if nobody has said.

    Args:
        card: The kind of card that it has; None for a processor.
        cards: How many of them, on all hosts.
        given: From the command line: of the whole machine.
        in_recipe: ``run.price_per_hour``: of the whole machine.
        prices: The user's list: of one card.
    """
    if given is not None:
        return Choice(parse_price(given), "--set", _("--price, for the whole machine"))
    if card is not None and card.name in prices.cards:
        each = prices.cards[card.name]
        because = _("{cards} x {price} an hour in {file}").format(cards=cards, price=each, file=prices_file())
        return Choice(each.times(cards), "recipe", because)
    if in_recipe is not None:
        return Choice(parse_price(in_recipe), "recipe", _("run.price_per_hour, for the whole machine"))
    return Choice(None, "default", _("no price is known: give --price, or write {file}").format(file=prices_file()))


def cost_of(price: Money | None, seconds: float | None) -> Money | None:
    """What some seconds cost; None if price or time is not known."""
    return None if price is None or seconds is None else price.times(seconds / 3600)


def in_currency(money: Money, currency: str, rates: Mapping[str, Money]) -> Money | None:
    """The amount in another currency by the user's rate, in either direction; None without one."""
    if money.currency == currency:
        return money
    rate = rates.get(money.currency)
    if rate is not None and rate.currency == currency:
        return Money(money.amount * rate.amount, currency)
    back = rates.get(currency)
    if back is not None and back.currency == money.currency and back.amount != Decimal(0):
        return Money(money.amount / back.amount, currency)
    return None
