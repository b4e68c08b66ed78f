"""Tables of text that fit into a terminal, where numbers and keys are never cut, and in HTML."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from textwrap import fill, wrap

UNLIMITED = 1_000_000
"""Characters of a line where the output is no terminal."""


def line_width() -> int:
    """Characters of a line of the output."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else UNLIMITED


@dataclass(frozen=True)
class TextTable:
    """Texts in rows; the first columns are the keys of a row, an empty one repeats that above."""

    titles: Sequence[str]
    rows: Sequence[Sequence[str]]
    keys: int = 1
    """How many columns are keys."""
    important: Sequence[str] = ()
    """Titles in the order of their importance; those left out follow in the table's order."""

    def lines(self, width: int) -> tuple[list[str], list[str]]:
        """The table in lines that are no longer than a width, if its keys are not.

        Keys that leave too little room for numbers stand in lines of their own, above their
        numbers. Of the rest, the least important columns are left out.

        Args:
            width: of a line, in characters.

        Returns:
            The lines, and the titles of the columns that are left out.
        """
        for stacked in range(self.keys + 1):
            indent = 2 if stacked else 0
            kept, gap = self._kept(stacked, width - indent)
            whole = len(kept) == len(self.titles) - stacked
            if whole or (stacked >= self.keys - 1 and len(kept) >= self.keys - stacked + 2):
                break
        lines = self._drawn(stacked, kept, gap, indent)
        left_out = [title for column, title in enumerate(self.titles)
                    if column >= self.keys and column not in kept]  # fmt: skip
        return lines, left_out

    def _kept(self, stacked: int, width: int) -> tuple[list[int], int]:
        """The columns that fit, and the gap between two of them."""
        order = [*self.important, *(t for t in self.titles if t not in self.important)]
        numbers = sorted(range(self.keys, len(self.titles)),
                         key=lambda column: order.index(self.titles[column]))  # fmt: skip
        for count in range(len(numbers), 0, -1):
            kept = [*range(stacked, self.keys), *sorted(numbers[:count])]
            room = width - sum(map(self._width, kept))
            for gap in (2, 1):
                if room >= gap * (len(kept) - 1):
                    return kept, gap
        return [*range(stacked, self.keys), *numbers[:1]], 1

    def _width(self, column: int) -> int:
        """Width of a column: of its widest text, or of the longest word of its title."""
        words = self.titles[column].split()
        return max(map(len, [*words, *(row[column] for row in self.rows)]), default=0)

    def _drawn(self, stacked: int, kept: Sequence[int], gap: int, indent: int) -> list[str]:
        """The lines of the columns that are kept."""
        widths = {column: self._width(column) for column in kept}

        def line(texts: dict[int, str]) -> str:
            parts = [
                text.ljust(widths[column]) if column < self.keys else text.rjust(widths[column])
                for column, text in texts.items()
            ]
            return (" " * indent + (" " * gap).join(parts)).rstrip()

        titles = {
            column: wrap(self.titles[column], max(widths[column], 1), break_on_hyphens=False)
            for column in kept
        }
        height = max(map(len, titles.values()))
        lines = [
            line({column: [*[""] * (height - len(words)), *words][number]
                  for column, words in titles.items()})
            for number in range(height)
        ]  # fmt: skip
        lines.append("─" * (indent + sum(widths.values()) + gap * (len(kept) - 1)))
        for row in self.rows:
            lines += [f"{'  ' * key}{row[key]}" for key in range(stacked) if row[key]]
            lines.append(line({column: row[column] for column in kept}))
        return lines

    def html(self, caption: str) -> str:
        """Return the table in HTML; see html_table."""
        return html_table([dict(zip(self.titles, row, strict=True)) for row in self.rows], caption)

    def print(self, heading: str) -> list[str]:
        """Print the table below a heading; the titles of the columns that are left out."""
        width = line_width()
        lines, left_out = self.lines(width)
        print(fill(heading, width, break_long_words=False, break_on_hyphens=False), end="\n\n")
        print("\n".join(lines), end="\n\n")
        if left_out:
            print(fill(f"no room for: {', '.join(left_out)}", width))
        return left_out


def print_meanings(meanings: dict[str, str]) -> None:
    """Print what names mean, a paragraph each."""
    for name, meaning in meanings.items():
        print(fill(f"{name}: {meaning}", line_width(), subsequent_indent="  "))


class Markup(str):
    """Text of a table that is HTML already."""


def html_table(rows: Sequence[Mapping[str, str]], caption: str) -> str:
    """Return rows of texts as a table in HTML that scrolls; nothing if there are none."""
    if not rows:
        return ""

    def cell(value: str) -> str:
        return f"<td>{value if isinstance(value, Markup) else escape(str(value))}</td>"

    head = "".join(f'<th scope="col">{escape(key)}</th>' for key in rows[0])
    lines = "".join(f"<tr>{''.join(map(cell, row.values()))}</tr>\n" for row in rows)
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(caption)}"><table>\n'
        f"<thead><tr>{head}</tr></thead>\n<tbody>\n{lines}</tbody>\n</table></div>\n"
    )
