"""Write the tables of README.md and of the policies' cards from the files of figures beside the policies.

    python -m tools.write_tables

The files are those of `marinenav evaluate NAME --suite all --json pretrained/NAME/figures.json`. A test fails where a
table and its files differ.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

from train_RL_agents.utils.files import write_atomically
from train_RL_agents.utils.rows import OVERALL

ROOT = Path(__file__).parents[1]
Row = Sequence[str]
"""Cells of a row of a table."""


@cache
def suites_of(policy: str) -> dict[str, Any]:
    """Return the figures of a shipped policy by suite."""
    content = json.loads((ROOT / f"pretrained/{policy}/figures.json").read_text())
    return dict(content["policies"][policy]["suites"])


def share(suite: dict[str, Any], group: str = OVERALL) -> float:
    """Return the success rate of a group of a suite."""
    successes, total, *_ = suite["groups"][group]["success"]
    return float(successes / total)


def result_row(cells: Row) -> Row:
    """Return the row of README's first table of the policy that a row names."""
    suites = suites_of(cells[0].split("`")[1])
    value, low, high = suites["fresh"]["groups"][OVERALL]["hours_per_collision"]
    pairs = (suites[name] for name in ("dnv_own", "imazu_ntnu_own"))
    *kinds, _ = suites["encounters_own"]["groups"].values()
    return (
        cells[0],
        f"> {low:.0f}" if value is None else f"{value:.0f} ({low:.0f} to {high:.0f})",
        f"{suites['dnv_own']['groups'][OVERALL]['hours_per_broken_duty'][0]:.3f}",
        *(
            "{} of {}; {:.2f}".format(*suite["situations_without_collision"], suite["groups"][OVERALL]["rules_kept"][0])
            for suite in pairs
        ),
        f"{min(1.0 - kind['collision'][0] / kind['collision'][1] for kind in kinds):.2f}",
        f"{suites['unruly']['groups'][OVERALL]['avoided'][0]:.2f}",
        f"{share(suites['crowd']):.2f}",
    )


def agent_row(cells: Row) -> Row:
    """Return the row of README's table of agents of the agent that a row names; times of trainings are kept."""
    suites = suites_of(cells[0].lower().replace("-", "_"))
    return (
        cells[0],
        f"{share(suites['fresh']):.3f}",
        f"{suites['fresh']['groups'][OVERALL]['time']:.1f} s",
        f"{share(suites['currents']):.3f}",
        " / ".join(f"{share(suites['crowd'], f'{robots} robots'):.2f}" for robots in (10, 20, 50)),
        f"{share(suites['vessels']):.3f}",
        f"{suites['imazu']['groups'][OVERALL]['rules_kept'][0]:.2f}",
        *cells[7:],
    )


def card_row(policy: str, cells: Row) -> Row:
    """Return the row of the table in a policy's card of the suite that a row names."""
    suite = suites_of(policy)[cells[0].strip("`")]
    row = suite["groups"][OVERALL]
    _, total, low, high = row["success"]
    kept = row.get("rules_kept", [None])[0]
    return (
        cells[0],
        f"{total:,}",
        f"{share(suite):.3f} ({low:.3f} to {high:.3f})",
        f"{row['vessels']:.3f}",
        "-" if row["time"] is None else f"{row['time']:.1f}",
        f"{suite['astern']:.3f}",
        "-" if kept is None else f"{kept:.2f}",
    )


def with_rows(text: str, header: str, make_row: Callable[[Row], Row]) -> str:
    """Return the text of a page in which every row of a table is replaced by what a function makes of its cells.

    Args:
        text: Markdown, with one table whose header begins with ``header``.
        header: beginning of the table's first line.
        make_row: function from the cells of a row to its new cells.
    """
    before, mark, rest = text.partition(f"\n| {header} |")
    table, gap, after = rest.partition("\n\n")
    titles, rule, *lines = table.split("\n")
    rows = (make_row([cell.strip() for cell in line.split("|")[1:-1]]) for line in lines if line)
    return before + mark + "\n".join([titles, rule, *(f"| {' | '.join(row)} |" for row in rows)]) + gap + after


def pages() -> dict[Path, str]:
    """Return the texts of README.md and of the cards, with tables of the figures as they are now, by path."""
    readme = with_rows((ROOT / "README.md").read_text(), "policy | hours per collision", result_row)
    texts = {ROOT / "README.md": with_rows(readme, "agent | published levels (3,000)", agent_row)}
    for card in sorted((ROOT / "pretrained").glob("*/README.md")):
        texts[card] = with_rows(card.read_text(), "suite | episodes | success", partial(card_row, card.parent.name))
    return texts


def main() -> None:
    """Write the pages whose tables have changed."""
    for path, text in pages().items():
        if path.read_text() != text:
            write_atomically(path, text)
            print(path.relative_to(ROOT))


if __name__ == "__main__":
    main()
