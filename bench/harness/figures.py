"""Medians, spreads, ratios, and how a table shows them."""

import statistics


def spread(values):
    """Median, least and greatest."""
    values = list(values)
    return {"median": statistics.median(values), "min": min(values), "max": max(values), "count": len(values)}


def ratios(over, under):
    """Of two engines' figures, repetition by repetition: drift of the machine cancels."""
    return spread(a / b for a, b in zip(over, under))


def number(value):
    """Four digits that matter, no more."""
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    if abs(value) >= 100:
        return f"{value:.0f}"
    if abs(value) >= 10:
        return f"{value:.1f}"
    return f"{value:.2f}"


def shown(figure, unit=""):
    """`1,933 (1,870–1,990)`."""
    text = number(figure["median"]) + unit
    if figure["count"] > 1:
        text += f" ({number(figure['min'])}–{number(figure['max'])})"
    return text


def percent(value):
    return f"{100 * value:.0f} %"


def table(header, rows):
    """A Markdown table; the first column is text, the others are figures."""
    lines = ["| " + " | ".join(header) + " |", "| --- |" + " ---: |" * (len(header) - 1)]
    lines += ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join(lines) + "\n"
