"""Quantities as text: read what people write ("6%", "2 GiB", "1h30m", "3.5 CNY") and write what they read."""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation

_NOT_AVAILABLE = "n/a"
_BYTE_UNITS = {"b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12}
_BYTE_UNITS |= {"k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}
_BYTE_UNITS |= {"kib": 2**10, "mib": 2**20, "gib": 2**30, "tib": 2**40}
_SECOND_UNITS = {"s": 1, "m": 60, "min": 60, "h": 3600, "d": 86400}


@dataclass(frozen=True)
class Money:
    """An exact amount in one currency, such as 3.5 CNY."""

    amount: Decimal
    currency: str

    def __str__(self) -> str:
        return f"{self.amount.quantize(Decimal('0.01'))} {self.currency}"

    def times(self, factor: float) -> Money:
        """The amount multiplied by ``factor`` (hours, for a price per hour)."""
        return Money(self.amount * Decimal(str(factor)), self.currency)


def parse_share(text: str) -> float:
    """Read a share: "6%" is 0.06.

    Raises:
        ValueError: It does not end in % or is not between 0% and 100%.
    """
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*[%％]\s*", text)
    if not match or not 0 <= float(match[1]) <= 100:
        raise ValueError(f"'{text}' is not a share such as 10%")
    return float(match[1]) / 100


def parse_bytes(text: str) -> int:
    """Read a size in bytes: "2 GiB" is 2 * 2**30, "2 GB" is 2 * 10**9.

    Raises:
        ValueError: It is not a number followed by a known unit.
    """
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-zA-Z]*)\s*", text)
    unit = match[2].lower() or "b" if match else ""
    if not match or unit not in _BYTE_UNITS:
        raise ValueError(f"'{text}' is not a size such as 2 GiB")
    return int(float(match[1]) * _BYTE_UNITS[unit])


def parse_seconds(text: str) -> float:
    """Read a duration in seconds: "1h30m" is 5400, "90s" is 90, "2 min" is 120.

    Raises:
        ValueError: It is not a series of numbers with the units d, h, m, min or s.
    """
    parts = re.findall(r"(\d+(?:\.\d+)?)\s*(min|[smhd])", text)
    if not parts or re.sub(r"(\d+(?:\.\d+)?)\s*(min|[smhd])|\s", "", text):
        raise ValueError(f"'{text}' is not a duration such as 1h30m")
    return sum(float(number) * _SECOND_UNITS[unit] for number, unit in parts)


def parse_money(text: str) -> Money:
    """Read an amount with its currency: "3.5 CNY", "CNY 3.5", "¥3.5", "$2".

    Raises:
        ValueError: The amount or the currency is missing; a bare number is refused, since it names no currency.
    """
    signs = {"¥": "CNY", "￥": "CNY", "元": "CNY", "$": "USD", "€": "EUR", "£": "GBP"}
    spelled = text.strip()
    for sign, name in signs.items():
        spelled = spelled.replace(sign, f" {name} ")
    words = spelled.split()
    numbers = [word for word in words if re.fullmatch(r"\d+(\.\d+)?", word)]
    names = [word for word in words if re.fullmatch(r"[A-Za-z]{3}", word)]
    if len(words) != 2 or len(numbers) != 1 or len(names) != 1:
        raise ValueError(f"'{text}' is not an amount with a currency such as 3.5 CNY")
    try:
        return Money(Decimal(numbers[0]), names[0].upper())
    except InvalidOperation as error:  # pragma: no cover - the pattern above admits only numbers
        raise ValueError(str(error)) from error


def format_bytes(count: float | None) -> str:
    """A size for people: 1536 is "1.5 KiB"; None is "n/a"."""
    if count is None:
        return _NOT_AVAILABLE
    size = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(size) < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"


def format_seconds(seconds: float | None) -> str:
    """A duration for people: 5400 is "1h 30m", 0.25 is "0.25s"; None is "n/a"."""
    if seconds is None:
        return _NOT_AVAILABLE
    if seconds < 10:
        return f"{seconds:.2g}s" if seconds < 1 else f"{seconds:.1f}s"
    whole = round(seconds)
    days, rest = divmod(whole, 86400)
    hours, rest = divmod(rest, 3600)
    minutes, rest = divmod(rest, 60)
    if days:
        return f"{days}d {hours}h"
    if hours:
        return f"{hours}h {minutes:02d}m"
    return f"{minutes}m {rest:02d}s" if minutes else f"{rest}s"


def format_count(count: float | None) -> str:
    """A count for people: 1234567 is "1,234,567"; None is "n/a"."""
    return _NOT_AVAILABLE if count is None else f"{count:,.0f}"


def format_share(share: float | None, digits: int = 1) -> str:
    """A share for people: 0.0625 is "6.2%"; None is "n/a"."""
    return _NOT_AVAILABLE if share is None else f"{share * 100:.{digits}f}%"


def format_number(value: float | None, digits: int = 4) -> str:
    """A measured number with ``digits`` significant digits; None is "n/a"."""
    return _NOT_AVAILABLE if value is None else f"{value:.{digits}g}"
