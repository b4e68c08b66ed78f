"""Tables of results, as text, Markdown, CSV or HTML; columns define how metrics are shown.

Columns for which lines have no room follow in a table below. Numbers and keys are never cut.
"""

from __future__ import annotations

import csv
import io
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from html import escape
from operator import eq
from textwrap import fill, wrap
from typing import Any

UNLIMITED_WIDTH = 1_000_000
"""Width of a line that every table fits into."""
_FILE_WIDTH = 100
"""Width of a line in characters if stdout is not a terminal."""


def line_width() -> int:
    """Return the width of the terminal in characters; _FILE_WIDTH if stdout is not a terminal."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else _FILE_WIDTH


@dataclass(frozen=True)
class Column:
    """A metric of every row, with its format."""

    name: str
    """Key of the metric in rows."""
    header: str | None = None
    """Title of the column; None: its name."""
    format: str | Callable[[Any], str] = ""
    """Format specification of a metric, such as ``.3f``, or a function from the metric to its text."""
    ends: tuple[str, str] | None = None
    """Keys of the ends of the metric's interval, shown in brackets if a row has both; a row may have only the lower."""
    meaning: str = ""
    """Meaning of the metric, which is printed below a table."""

    @property
    def title(self) -> str:
        """Return the title of the column: its header, or else its name."""
        return self.name if self.header is None else self.header

    def text(self, row: Mapping[str, Any]) -> str:
        """Return the metric of a row as text, with its interval in brackets if the row has both ends.

        If the metric is missing or None, the text is the lower end of its interval, such as ``> 3.2``, or else a dash.
        """
        value = row.get(self.name)
        low, high = map(row.get, self.ends) if self.ends else (None, None)
        if value is None:
            return "-" if low is None else f"> {low:{self.format}}"
        if isinstance(value, str):
            return value
        if callable(self.format):
            return self.format(value)
        middle = format(value, self.format)
        return middle if low is None or high is None else f"{middle} [{low:{self.format}}, {high:{self.format}}]"


@dataclass(frozen=True)
class Table:
    """Rows of metrics; the first columns are the keys of a row.

    If a row has several keys, the first is shown only where it differs from that of the row above.
    """

    columns: Sequence[Column]
    rows: Sequence[Mapping[str, Any]]
    """Values by name of the column."""
    keys: int = 1
    """Number of columns that are keys."""
    important: Sequence[str] = ()
    """Titles of columns, the most important first; other columns follow in the order of the table."""

    @classmethod
    def from_rows(cls, rows: Sequence[Mapping[str, Any]]) -> Table:
        """Make a table with a column for every name in any of the rows."""
        return cls([Column(name) for name in dict.fromkeys(name for row in rows for name in row)], rows)

    @property
    def titles(self) -> list[str]:
        """Return the titles of the columns."""
        return [column.title for column in self.columns]

    @cached_property
    def cells(self) -> list[list[str]]:
        """Return the text of every cell, row by row."""
        rows = [[column.text(row) for column in self.columns] for row in self.rows]
        if self.keys > 1:
            firsts = [row[0] for row in rows]
            for row, repeated in zip(rows[1:], map(eq, firsts, firsts[1:]), strict=True):
                row[0] = "" if repeated else row[0]
        return rows

    def csv(self) -> str:
        """Return the table as CSV: the metrics, not formatted, below the names of the columns."""
        stream = io.StringIO()
        names = [column.name for column in self.columns]
        writer = csv.DictWriter(stream, names, extrasaction="ignore", lineterminator="\n")
        writer.writeheader()
        writer.writerows(self.rows)
        return stream.getvalue()

    def markdown(self) -> str:
        """Return the table in Markdown."""
        cells = ([text.replace("|", r"\|") for text in row] for row in self.cells)
        lines = [self.titles, ["---"] * len(self.columns), *cells]
        return "".join(f"| {' | '.join(line)} |\n" for line in lines)

    def html(self, caption: str) -> str:
        """Return the table in HTML, in an element that scrolls, labelled by the caption; empty without rows."""
        if not self.rows:
            return ""

        head = "".join(f'<th scope="col">{escape(title)}</th>' if title else "<td></td>" for title in self.titles)
        lines = "".join(f"<tr>{''.join(f'<td>{escape(text)}</td>' for text in row)}</tr>\n" for row in self.cells)
        return (
            f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(caption)}">'
            f"<table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{lines}</tbody>\n</table></div>\n"
        )

    def print(self, heading: str, explains: bool = True) -> None:
        """Print the table below a heading, and the meanings of its columns unless told not to."""
        width, table = line_width(), self
        print(fill(heading, width, break_long_words=False, break_on_hyphens=False), end="\n\n")
        while table.columns:
            lines, left_out = table.lines(width)
            print("\n".join(lines), end="\n\n")
            columns = [item for item in table.columns[self.keys :] if item.title in left_out]
            table = replace(self, columns=[*self.columns[: self.keys], *columns] if columns else ())
        for column in self.columns if explains else ():
            if column.meaning:
                print(fill(f"{column.title}: {column.meaning}", width, subsequent_indent="  "))

    def lines(self, width: int) -> tuple[list[str], list[str]]:
        """Return the lines of the table, and the titles of the least important columns, for which it has no room."""
        columns = range(len(self.columns))
        widths = [
            max(map(len, [*self.titles[column].split(), *(row[column] for row in self.cells)]), default=0)
            for column in columns
        ]
        order = [*self.important, *(title for title in self.titles if title not in self.important)]
        kept = [*columns]
        while sum(widths[column] + 2 for column in kept) - 2 > width and len(kept) > self.keys + 1:
            kept.remove(max(kept[self.keys :], key=lambda column: order.index(self.titles[column])))

        def line(texts: Sequence[str]) -> str:
            parts = [
                text.ljust(widths[column]) if column < self.keys else text.rjust(widths[column])
                for column, text in zip(kept, texts, strict=True)
            ]
            return "  ".join(parts).rstrip()

        titles = [wrap(self.titles[column], max(widths[column], 1), break_on_hyphens=False) for column in kept]
        height = max(map(len, titles))
        head = [line(words) for words in zip(*([""] * (height - len(title)) + title for title in titles), strict=True)]
        rule = "─" * (sum(widths[column] + 2 for column in kept) - 2)
        body = [line([row[column] for column in kept]) for row in self.cells]
        return [*head, rule, *body], [self.titles[column] for column in columns if column not in kept]
