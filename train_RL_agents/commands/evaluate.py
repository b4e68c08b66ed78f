"""Evaluate a policy on a fixed set of scenarios."""

from __future__ import annotations

import argparse
import json
import secrets
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from marinenav_env import Episode
    from marinenav_env.state import Scenario
    from train_RL_agents.checkpoint import LoadedPolicy
    from train_RL_agents.evaluation import Policy

COLUMNS = {
    "success": "episodes in which every robot arrives, with the 95% Wilson interval; "
    "an episode stops at its first collision",
    "collision": "episodes with a collision",
    "time-out": "episodes without a collision in which some robot did not arrive in time",
    "robot success": "robots that arrive when episodes go on after a collision",
    "time": "seconds under way per robot, mean over successful episodes",
    "energy": "thrust spent per robot (N s), mean over successful episodes",
    "return": "sum of 0.99^t reward per robot, mean over all episodes",
}
"""What each column of the table means."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    plain: dict[str, Any] = {"default": argparse.SUPPRESS}
    add = parser.add_argument
    add("--checkpoint", metavar="PATH", type=Path, required=True, help="run folder or policy file")
    add("--which", metavar="NAME", default="best",
        help="of a run: best (default), latest or a file's name")  # fmt: skip
    add("--episodes", metavar="N", type=int, help="a level; by default as while training", **plain)
    add("--levels", metavar="L", type=int, nargs="+", help="from 1; all by default", **plain)
    add("--scenarios", metavar="FILE", type=Path, help="scenario file, instead of levels", **plain)
    add("--seed", metavar="N", type=int, help="of scenarios and noise; by default the fixed set's",
        **plain)  # fmt: skip
    add("--fresh", action="store_true", help="scenarios and noise never seen before", **plain)
    add("-D", "--device", metavar="DEV", default="auto", help="auto (default), cpu, cuda, cuda:N")
    add("--risk", metavar="X", type=float, help="share of the worst outcomes to judge by, for "
        "agents that know return distributions", **plain)  # fmt: skip
    add("--stochastic", action="store_true", help="act as while training, but without added "
        "exploration: SAC samples, Rainbow keeps its noise, IQN draws its fractions if "
        "agent.random_fractions is set, the others stay the same", **plain)  # fmt: skip
    add("--json", metavar="OUT", type=Path, help="write setting and figures there", **plain)


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    given = vars(arguments)
    _check(arguments.parser, given)
    from train_RL_agents.checkpoint import load_policy
    from train_RL_agents.device import resolve_device

    device = resolve_device(arguments.device)
    loaded = load_policy(arguments.checkpoint, arguments.which, device)
    chosen = choose_set(loaded, given)
    figures = _figures(loaded, chosen, given)
    setting = _setting(loaded, chosen, given, str(device))
    _print(setting, figures)
    if "json" in given:
        _write(given["json"], {"setting": setting, "figures": figures, "columns": COLUMNS})
    return 0


def _check(parser: argparse.ArgumentParser, given: dict[str, Any]) -> None:
    """Refuse options that contradict each other or are out of range.

    Raises:
        SystemExit: after a message.
    """
    clashes = (("fresh", "seed"), ("scenarios", "levels"), ("scenarios", "episodes"),
               ("stochastic", "risk"))  # fmt: skip
    for first, second in clashes:
        if first in given and second in given:
            parser.error(f"argument --{second}: not allowed with --{first}")
    if given.get("episodes", 1) < 1:
        parser.error(f"argument --episodes: must be at least 1, not {given['episodes']}")
    if not 0.0 < given.get("risk", 1.0) <= 1.0:
        parser.error(f"argument --risk: must be above 0 and at most 1, not {given['risk']}")


@dataclass(frozen=True)
class ChosenSet:
    """What a policy is evaluated on."""

    scenarios: Scenario | Sequence[Episode]
    """One per episode."""
    seed: int
    """Of the drawing and of the measurement noise."""
    levels: dict[str, Any] | None
    """Each level's settings and number of episodes; None for a file."""
    file: str | None
    """The scenario file; None for levels."""


def choose_set(loaded: LoadedPolicy, given: dict[str, Any]) -> ChosenSet:
    """Read or draw the scenarios.

    Args:
        loaded: its configuration has the levels, and the size and seed of the fixed set.
        given: the options given.

    Raises:
        ConfigError: when there is no such file or level.
    """
    seed = given.get("seed", loaded.config.eval_schedule.seed)
    seed = secrets.randbelow(2**31) if "fresh" in given else seed
    if "scenarios" not in given:
        return _draw(loaded, seed, given)
    from marinenav_env import read_scenarios

    file = str(given["scenarios"])
    return ChosenSet(read_scenarios(file), seed, None, file)


def _draw(loaded: LoadedPolicy, seed: int, given: dict[str, Any]) -> ChosenSet:
    """Draw all levels and keep those asked for: a level's scenarios do not depend on the others."""
    import torch

    from marinenav_env.validation import require
    from train_RL_agents.evaluation import draw_scenarios

    schedule = loaded.config.eval_schedule
    levels, counts = schedule.levels(), schedule.num_episodes
    if "episodes" in given:
        counts = (given["episodes"],) * len(levels)
    numbers = sorted(set(given.get("levels", range(1, len(levels) + 1))))
    for number in numbers:
        require(1 <= number <= len(levels), "--levels", number, f"from 1 to {len(levels)}")
    drawn = draw_scenarios(loaded.config.world, levels, counts, seed)
    wanted = torch.isin(drawn.level, torch.tensor(numbers) - 1)
    described = {
        f"level {n}": {**asdict(levels[n - 1]), "episodes": counts[n - 1]} for n in numbers
    }
    return ChosenSet(drawn[wanted], seed, described, None)


def _figures(loaded: LoadedPolicy, chosen: ChosenSet, given: dict[str, Any]) -> dict[str, Any]:
    """Run the episodes; figures by level and overall, None where there is nothing to average."""
    import torch

    from train_RL_agents.evaluation import evaluate
    from train_RL_agents.policy_wrapper import PolicyWrapper

    device = next(loaded.agent.parameters()).device
    # Other numbers than those of the measurement noise.
    coins = torch.Generator(device).manual_seed(chosen.seed + 1)
    # The strength of its exploration is 0 until it is set.
    policy = PolicyWrapper(loaded.agent, generator=coins if "stochastic" in given else None)
    episodes = evaluate(
        with_risk(policy, given["risk"]) if "risk" in given else policy,
        chosen.scenarios,
        loaded.config.world,
        continuous=loaded.agent.continuous,
        device=device,
        seed=chosen.seed,
    )
    table = episodes.table()
    # A file does not say which level its episodes are of.
    return table if chosen.file is None else {"overall": table["overall"]}


def with_risk(policy: Policy, risk: float) -> Policy:
    """Make a policy judge by the worst outcomes.

    Args:
        policy: reads the risk level, if its agent knows return distributions.
        risk: share of the worst outcomes, in (0, 1].
    """
    import torch

    from train_RL_agents.policy_wrapper import RISK

    def act(step: Any) -> Any:
        mask = step.get((RISK[0], "mask"))
        return policy(step.set(RISK, torch.full(mask.shape, risk, device=mask.device)))

    return act


def _setting(
    loaded: LoadedPolicy, chosen: ChosenSet, given: dict[str, Any], device: str
) -> dict[str, Any]:
    """Everything that the figures depend on."""
    from train_RL_agents.config_file import to_dict
    from train_RL_agents.run_folder import versions

    return {
        "checkpoint": str(loaded.path.resolve()),
        "agent_type": loaded.config.agent_type,
        "env_steps": loaded.env_steps,
        "seed": chosen.seed,
        "levels": chosen.levels,
        "scenarios": chosen.file,
        "episodes": len(chosen.scenarios),
        "risk": given.get("risk"),
        "stochastic": "stochastic" in given,
        "device": device,
        "world": to_dict(loaded.config.world),
        "versions": versions(),
    }


def _print(setting: dict[str, Any], figures: dict[str, Any]) -> None:
    """Print the table, with what each column means below it."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    titles = ["", "episodes", *COLUMNS]
    table = Table(box=box.SIMPLE, caption_justify="left", caption_style="")
    for title in titles:
        table.add_column(title, justify="right" if title else "left", no_wrap=True)
    for name, row in figures.items():
        table.add_row(name, *_cells(row))
    # Without a terminal there is no width to fit into.
    console = Console(highlight=False)
    console = console if console.is_terminal else Console(highlight=False, width=160)
    source = setting["scenarios"] or "levels"
    console.print(f"{setting['agent_type']} after {setting['env_steps']:,} env-steps, "
                  f"{setting['checkpoint']}, on {source}, seed {setting['seed']}",
                  soft_wrap=True)  # fmt: skip
    console.print(table)
    for title, meaning in COLUMNS.items():
        console.print(f"{title}: {meaning}", soft_wrap=True)


def _cells(row: dict[str, Any]) -> list[str]:
    """One row of the table after its name."""

    def number(name: str, digits: int) -> str:
        return "-" if row[name] is None else f"{row[name]:.{digits}f}"

    interval = f"[{number('success_low', 3)}, {number('success_high', 3)}]"
    return [
        str(row["episodes"]),
        f"{number('success_rate', 3)} \\{interval}",
        *(number(name, 3) for name in ("collision_rate", "timeout_rate", "robot_success_rate")),
        number("avg_time", 1),
        number("avg_energy", 0),
        number("avg_return", 2),
    ]


def _write(path: Path, content: dict[str, Any]) -> None:
    from train_RL_agents.checkpoint import write_atomically

    write_atomically(path, json.dumps(content, indent=2, allow_nan=False) + "\n")
