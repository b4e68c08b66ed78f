"""Numbers of README and docs are those of the files in docs/results that they come from."""

import csv
import json
import re
from pathlib import Path

import pytest

from tools.write_tables import share, suites_of

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "docs/results"


def rows_of(page, header):
    """The rows of the Markdown table whose header begins so, as cells."""
    _, _, rest = (ROOT / page).read_text().partition(f"\n| {header} |")
    lines = rest.split("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines]


def overall(name):
    return json.loads((RESULTS / f"{name}.json").read_text())["figures"]["overall"]


def minutes(name, success=None):
    """Training time of a run, or that until its first evaluation with so much success."""
    with (RESULTS / f"{name}.csv").open() as file:
        rows = list(csv.DictReader(file))
    if success is not None:
        rows = [row for row in rows if float(row["success_rate"]) >= success][:1]
    return float(rows[-1]["train_time"]) / 60.0


def test_the_text_around_the_table_of_agents_has_its_numbers():
    """The table itself is written by tools/write_tables.py."""
    rows = rows_of("README.md", "agent | published levels (3,000)")
    assert len(rows) == 8
    for agent, *cells in rows:
        name = agent.lower().replace("-", "_")
        # The run of PPO's policy is in no file.
        for file in RESULTS.glob(f"{name}_sea_seed?.csv"):
            assert cells[6] == f"{minutes(file.stem):.0f} min", agent
    shares = {agent: float(cells[5]) for agent, *cells in rows}
    of_two = [
        suites_of(agent.lower().replace("-", "_"))["rules"]["groups"]["overall"]["rules_kept"][0] for agent in shares
    ]
    text = (ROOT / "README.md").read_text().replace("\n", " ")
    others = [share for agent, share in shares.items() if agent != "PPO"]
    assert f"{shares['PPO']:.0%} of PPO's vessels" in text
    assert f"{100 * min(others):.0f} to {max(others):.0%} of the other seven agents'" in text
    assert f"{100 * min(of_two):.0f} to {max(of_two):.0%} of the vessels with a duty keep it in 400" in text
    defensive = [
        suites_of(path.parent.name)["imazu"]["groups"]["overall"]["rules_kept"][0]
        for path in (ROOT / "pretrained").glob("*_defensive/figures.json")
    ]
    assert f"{100 * min(defensive):.0f} to {max(defensive):.0%} of those of `*_defensive`" in text


MEASURED = {
    "AC-IQN, seeds 0, 1, 2": ("ac_iqn_seed0_latest", "ac_iqn_seed1_latest", "ac_iqn_seed2_latest"),
    "IQN, seeds 0, 1": ("iqn_seed0_latest", "iqn_seed1_latest"),
    "IQN, penalty 60": ("iqn_p60_seed0_latest",),
    "Rainbow": ("rainbow_seed0_best",),
    "DQN, seeds 0, 1": ("dqn_seed0_best", "dqn_seed1_latest"),
    "DDPG, seeds 0, 1": ("ddpg_seed0_latest", "ddpg_seed1_latest"),
    "SAC": ("sac_seed0_latest",),
    "PPO with the fleet's critic, seeds 0, 1": ("ppo_fleet_seed0_latest", "ppo_fleet_seed1_latest"),
}
"""Files of the rows of the table of the published levels; the last runs of PPO and A2C have none of their policies."""


def numbers(cell):
    return re.findall(r"\d+\.\d+", cell)


@pytest.mark.parametrize("agent", MEASURED)
def test_the_published_levels_by_seed_are_those_of_the_files(agent):
    (cells,) = [row for row in rows_of("docs/measured.md", "agent | command | success") if row[0] == agent]
    success, interval, time, after = cells[2], cells[3], cells[4], cells[6]
    metrics = [overall(name) for name in MEASURED[agent]]
    assert numbers(success) == [f"{row['success_rate']:.3f}" for row in metrics]
    if interval.startswith("each within"):
        gaps = [abs(row[end] - row["success_rate"]) for row in metrics for end in ("success_low", "success_high")]
        assert numbers(interval) == [f"{max(gaps):.3f}"]
    else:
        assert numbers(interval) == [f"{metrics[0][end]:.3f}" for end in ("success_low", "success_high")]
    times = [row["avg_time"] for row in metrics]
    shown = (min(times), max(times)) if " to " in time else times
    assert numbers(time) == [f"{value:.1f}" for value in shown]
    first = [f"{minutes(name.rpartition('_')[0], 0.79):.1f}" for name in MEASURED[agent]]
    # AC-IQN's cell is of a trial; its own runs were evaluated half as often, see the text.
    assert agent.startswith("AC-IQN") or numbers(after) == sorted(set(first), key=first.index)


def test_the_text_below_the_published_levels_has_the_metrics_of_the_files():
    text = (ROOT / "docs/measured.md").read_text().replace("\n", " ")

    def shares(name, seeds):
        return [f"{overall(f'{name}_seed{seed}_latest_4242')['success_rate']:.3f}" for seed in seeds]

    assert (
        "AC-IQN reach {}, {} and {}, IQN {} and {}".format(*shares("ac_iqn", (0, 1, 2)), *shares("iqn", (0, 1))) in text
    )
    assert "DDPG {} and {}, SAC {},".format(*shares("ddpg", (0, 1)), *shares("sac", (0,))) in text
    assert "fleet's critic {} and {}".format(*shares("ppo_fleet", (0, 1))) in text
    other = overall("iqn_p60_seed1_latest")
    assert f"with seed 1 give {other['success_rate']:.3f}, but take {other['avg_time']:.1f} s" in text
    first = [minutes(f"ac_iqn_seed{seed}", 0.79) for seed in range(3)]
    assert f"after {min(first):.1f} to {max(first):.1f} min" in text


def h200(name, **labels):
    """Rows of a benchmark on the H200 with these labels."""
    rows = json.loads((RESULTS / f"bench_{name}.json").read_text())["rows"]
    return [row for row in rows if labels.items() <= row.items()]


def test_the_rates_of_a_gpu_are_those_of_the_files():
    text = (ROOT / "docs/performance.md").read_text()
    sizes = ("world_h200", 16384), ("collect_h200", 4096)
    for name, envs in sizes:
        (row,) = h200(name, environments=envs)
        median, lowest, highest = (f"{row[key] / 1e6:.1f}" for key in ("median", "lowest", "highest"))
        assert re.search(rf"\| {envs:,} environments \| {median} M[^|]* \({lowest} to {highest}\) \|", text), name
    for precision in ("fp32", "bf16"):
        rates = "; ".join(f"{row['median']:,.0f}" for row in h200(f"update_h200_{precision}"))
        assert f"| {rates} updates/s |" in text
    for name in ("loop_h200", "loop_h200_4096"):
        (row,) = h200(name)
        median, lowest, highest = (f"{1e3 * round(row[key] / 1e3):,.0f}" for key in ("median", "lowest", "highest"))
        assert re.search(rf"\| {median}[^|]* \({lowest} to {highest}\) \|", text), name


@pytest.mark.parametrize("name", ["ac_iqn_h200", "ac_iqn_h200_4096", "ac_iqn_h200_2048_bf16", "ppo_h200"])
def test_the_trainings_on_a_gpu_are_those_of_the_files(name):
    with (RESULTS / f"{name}_seed0.csv").open() as file:
        rows = list(csv.DictReader(file))
    success = sum(float(row["success_rate"]) for row in rows[-5:]) / 5
    fresh = overall(f"{name}_seed0_latest")
    low, high = fresh["success_low"], fresh["success_high"]
    shown = (
        rf"\| {int(rows[-1]['env_steps']) / 1e6:.1f}[^|]* M \| {float(rows[-1]['train_time']):.0f} s \| {success:.3f} "
        rf"\| {fresh['success_rate']:.3f} \({low:.3f} to {high:.3f}\) \| {fresh['avg_time']:.1f} s \|"
    )
    assert re.search(shown, (ROOT / "docs/performance.md").read_text())


def test_the_tables_of_the_published_weights_are_those_of_the_file():
    content = json.loads((RESULTS / "published_weights.json").read_text())
    page = "docs/published_weights.md"

    def share(part):
        return f"{part['success']:.3f} [{part['interval'][0]:.3f}, {part['interval'][1]:.3f}]"

    success, metrics, levels = [], [], []
    for row in content:
        agent, published, here = row["agent"], row["published"], row["seeds_1_to_6_of_an_earlier_version"]
        actions = "deterministic" if row["actions"] == "deterministic" else "`--stochastic`"
        before = f"{share(published)} of {published['episodes']}"
        success.append([agent, actions, before, share(row["seed_1"]), share(here), f"{row['p_value']:.2f}"])
        pairs = [(published[key], here[key]) for key in ("time_s", "energy", "return")]
        metrics.append(
            [
                agent,
                *(
                    f"{actual:{form}} / {expected:{form}}"
                    for (actual, expected), form in zip(pairs, (".1f", ",", ".1f"), strict=True)
                ),
            ]
        )
        pairs = zip(published["per_level"], here["per_level"], strict=True)
        levels.append([agent, *(f"{actual:.2f} / {expected:.2f}" for actual, expected in pairs)])
    assert rows_of(page, "agent | actions") == success
    assert rows_of(page, "agent | time (s)") == metrics
    assert rows_of(page, "agent | level 1") == levels
    errors = {row["agent"]: f"{row['probe_max_error_float64']:.1e}".replace("e-0", "e-") for row in content}
    assert {agent: error for agent, _, error in rows_of(page, "agent | outputs")} == errors


@pytest.mark.parametrize("card", sorted((ROOT / "pretrained").glob("*/README.md")), ids=lambda path: path.parent.name)
def test_the_text_of_a_card_has_the_shares_of_crowds(card):
    crowd = suites_of(card.parent.name)["crowd"]
    for group, row in list(crowd["groups"].items())[:-1]:
        assert f"{share(crowd, group):.2f} / {row['vessels']:.3f}" in card.read_text().replace("\n", " ")


def test_the_table_of_the_second_world_is_that_of_the_file():
    content = json.loads((RESULTS / "sim_to_sim.json").read_text())
    rows = rows_of("docs/boats.md", "| success (95% interval)")
    expected = []
    for row in content.values():
        shares = [row.get(key, 0) / row["episodes"] for key in ("success", "collision", "timeout")]
        interval = f"{row['success_low']:.3f} to {row['success_high']:.3f}"
        expected.append([f"{shares[0]:.3f} ({interval})", *(f"{share:.3f}" for share in shares[1:])])
    assert [cells for _, *cells in rows] == expected


def rounded(value):
    """A rate with three digits."""
    return f"{float(f'{value:.3g}'):,.0f}" if value >= 100 else f"{value:#.3g}"


def spread(row):
    return "{} ({} to {})".format(*(rounded(row[key]) for key in ("median", "lowest", "highest")))


def rates(name):
    return json.loads((RESULTS / f"bench_{name}.json").read_text())


def test_the_rates_of_the_page_on_speed_are_those_of_the_files():
    page = "docs/performance.md"
    text = (ROOT / page).read_text().replace("\n", " ")
    vmas = rates("vmas_cpu")
    best, *sizes = rows_of(page, "setting | ours, env-steps/s")
    assert best[1:] == [*map(spread, vmas["best"]), spread(vmas["ratio"])]
    for label, *cells in sizes:
        count = int(re.match(r"[\d,]+", label)[0].replace(",", ""))
        actual, expected = (row["median"] for row in vmas["rows"] if row["environments"] == count)
        assert cells == [rounded(actual), rounded(expected), f"{actual / expected:.1f}"]
    shown = [re.sub(r" [a-z-]+/s", "", cells[2]) for cells in rows_of(page, "part | size | rate")]
    single, half = (rates(f"update_cpu_{kind}")["rows"] for kind in ("fp32", "bf16"))
    for row in (*rates("world_cpu")["rows"], *single, *half, *rates("loop_cpu")["rows"]):
        assert any(spread(row) in cell for cell in shown), row
    ranks = (rates(name)["ratio"] for name in ("ranks_cpu", "ranks_cpu_2048"))
    for ratio in ranks:
        assert "{median:.2f} times ({lowest:.2f} to {highest:.2f})".format(**ratio) in text or (
            "{median:.2f} ({lowest:.2f} to {highest:.2f}; three pairs)".format(**ratio) in text
        )
