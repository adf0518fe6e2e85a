# Tools as Python functions: names, types and docstrings become their schemas. From this folder:
#   playground run "Convert 20 degrees to fahrenheit" --tools ./tools.py --allow all

from __future__ import annotations

from datetime import date, timedelta
from typing import Literal


def convert_temperature(degrees: float, unit: Literal["celsius", "fahrenheit"]) -> float:
    """Convert a temperature to the other unit.

    Args:
        degrees: The temperature.
        unit: The unit to convert to.
    """
    if unit == "fahrenheit":
        return round(degrees * 9 / 5 + 32, 1)
    return round((degrees - 32) * 5 / 9, 1)


def add_days(day: date, days: int = 1) -> date:
    """Add days to a date.

    Args:
        day: The date to start from.
        days: How many days to add.
    """
    return day + timedelta(days=days)
