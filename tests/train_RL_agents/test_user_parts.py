"""Parts of a user's own: the package of docs/extend.md trains, resumes, evaluates and exports."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from tests.own_parts import allow_only
from tests.train_RL_agents.tiny_runs import TINY, small_pool
from train_RL_agents.commands.cli import BAD_INPUT_STATUS, main
from train_RL_agents.run.checkpoint import find_run, load_policy

PAGE = Path(__file__).parents[2] / "docs" / "extend.md"
SOFT_Q, PPO_KL = "my_parts.soft_q:SoftQ", "my_parts.ppo_kl:PPOKL"
CURRENT, ENCODER = "my_parts.current:Current", "my_parts.current:CurrentEncoder"
REWARD, RING = "my_parts.rewards:early", "my_parts.ring:Ring"
PARTS = (SOFT_Q, REWARD, CURRENT, ENCODER, RING)
WORDS = (
    f"world.reward.function={REWARD}",
    f"world.sensor.entries={CURRENT}",
    f'agent.entry_encoders=["current={ENCODER}"]',
    f"training_schedule.sampler={RING}",
)
ON_POLICY = {"num_envs": 8, "rollout_steps": 4, "batch_size": 16}


# The page ---------------------------------------------------------------------------------------


def blocks(language: str) -> list[str]:
    """The code blocks of the page in a language."""
    return re.findall(rf"```{language}\n(.*?)```", PAGE.read_text(), re.DOTALL)


def write_package(folder: Path) -> None:
    """Write the package ``my_parts``; each example names its file in the first line."""
    for text in blocks("python"):
        path = folder / text.partition("\n")[0].removeprefix("# ")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def write_entry_points(folder: Path) -> None:
    """Register the parts, as an installation of the package does."""
    (project,) = (tomllib.loads(text)["project"] for text in blocks("toml"))
    groups = (
        f"[{group}]\n" + "\n".join(f"{name} = {value}" for name, value in points.items())
        for group, points in project["entry-points"].items()
    )
    info = folder / f"my_parts-{project['version']}.dist-info"
    info.mkdir()
    (info / "entry_points.txt").write_text("\n\n".join(groups) + "\n")
    (info / "METADATA").write_text(f"Name: {project['name']}\nVersion: {project['version']}\n")


def commands(start: str) -> list[list[str]]:
    """The command lines of the page that start with some words, without these."""
    lines = [line for text in blocks("bash") for line in text.splitlines()]
    return [shlex.split(line.removeprefix(start)) for line in lines if line.startswith(start)]


# Parts ------------------------------------------------------------------------------------------


def plugged(*parts: str) -> list[str]:
    """Options that name parts."""
    return [word for part in parts for word in ("--plugin", part)]


def forget() -> None:
    """Unload the package, so that an import is seen."""
    for name in [name for name in sys.modules if name.partition(".")[0] == "my_parts"]:
        del sys.modules[name]


def imported() -> bool:
    """Whether any module of the package is loaded."""
    return any(name.partition(".")[0] == "my_parts" for name in sys.modules)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that the package is in."""
    folder = tmp_path_factory.mktemp("site")
    write_package(folder)
    return folder


@pytest.fixture(autouse=True)
def _elsewhere(site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The package on the path; the present folder is another one."""
    allow_only(monkeypatch)
    monkeypatch.setattr(sys, "path", [str(site), *sys.path])
    monkeypatch.chdir(tmp_path)
    forget()
    with small_pool():
        yield
    forget()


def run(*words: str) -> int:
    """Run a command as a new process does: with no part allowed and none loaded."""
    allow_only(pytest.MonkeyPatch())  # until _elsewhere ends
    forget()
    return main(words)


def config_file(folder: Path, trainer: dict[str, Any] | None = None, **settings: Any) -> str:
    """A configuration file of a tiny run."""
    rest = {name: each for name, each in TINY.items() if name != "agent_type"}
    file = folder / "tiny.json"
    file.write_text(json.dumps({**rest, "trainer": trainer or TINY["trainer"], **settings}))
    return str(file)


def begin(folder: Path, *words: str, trainer: dict[str, Any] | None = None) -> list[str]:
    """A command that trains a tiny run."""
    return ["train", "-C", config_file(folder, trainer), "--quiet", "save_dir=runs", *words]


def trained(*words: str, **options: Any) -> str:
    """Train, and return the run's folder."""
    assert run(*begin(Path.cwd(), *words, **options)) == 0
    return str(find_run(next(Path("runs").iterdir())))


def life(folder: str, parts: Sequence[str]) -> None:
    """Resume, evaluate, show and export a run."""
    named = plugged(*parts)
    assert run("train", "--resume", folder, "--quiet", "total_timesteps=240", *named) == 0
    loaded = load_policy(folder, "latest")
    assert loaded.env_steps >= 240
    assert run("evaluate", folder, "--episodes", "1", "--levels", "1", *named) == 0
    assert run("info", folder, *named) == 0
    assert run("export", folder, "--out", "exported", *named) == 0
    contract = json.loads(Path("exported/contract.json").read_text())
    assert contract["agent"] == loaded.config.agent_type
    assert contract["files"].keys() == {"torchscript"}
    assert all(Path("exported", each["file"]).is_file() for each in contract["files"].values())
    assert not list(Path("exported").glob("*:*"))


@pytest.fixture(scope="module")
def folder(site: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A run with a part of every kind; read only."""
    with pytest.MonkeyPatch.context() as patch, small_pool():
        patch.setattr(sys, "path", [str(site), *sys.path])
        allow_only(patch)
        patch.chdir(tmp_path_factory.mktemp("run"))
        return str(Path(trained("--agent", SOFT_Q, *WORDS)).resolve())


def test_off_policy_agent_with_all_parts(folder: str) -> None:
    shutil.copytree(folder, "copy")
    life("copy", PARTS)
    contract = json.loads(Path("exported/contract.json").read_text())
    names = [each["name"] for each in contract["inputs"]]
    assert names == ["self_state", "objects_state", "objects_mask", "current"]
    assert contract["call"]["torchscript"] == f"forward(({', '.join(names)}))"


def test_on_policy_agent_with_all_parts_named_by_entry_points(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write_entry_points(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    words = (
        "world.reward.function=early",
        "world.sensor.entries=current",
        'agent.entry_encoders=["current=current"]',
        "training_schedule.sampler=ring",
    )
    folder = trained("--agent", "PPO-KL", *words, trainer=ON_POLICY)
    # Files hold the references, so that without the entry points a sentence names the package.
    stored = (Path(folder) / "trial_config.json").read_text()
    assert all(f'"{part}"' in stored for part in (PPO_KL, REWARD, CURRENT, RING))
    assert f'"current={ENCODER}"' in stored
    assert run("info", folder) == 0
    sys.path.remove(str(tmp_path))
    assert run("info", folder) == BAD_INPUT_STATUS
    assert f"--plugin {PPO_KL}" in capsys.readouterr().err
    life(folder, (PPO_KL, *PARTS[1:]))


@pytest.mark.parametrize(
    "words",
    [
        ("train", "-C", "FILE"),
        ("train", "--resume", "RUN"),
        ("evaluate", "RUN"),
        ("evaluate", "POLICY"),
        ("export", "POLICY", "--out", "exported"),
        ("play", "RUN"),
        ("info", "RUN"),
    ],
    ids=" ".join,
)
def test_a_file_imports_nothing(words: tuple[str, ...], folder: str, capsys: pytest.CaptureFixture[str]) -> None:
    names = {
        "RUN": folder,
        "POLICY": str(next(Path(folder).glob("checkpoints/policy_*.pt"))),
        "FILE": config_file(Path.cwd(), agent_type=SOFT_Q),
    }
    assert run(*(names.get(word, word) for word in words)) == BAD_INPUT_STATUS
    error = capsys.readouterr().err
    assert error.startswith("marinenav: error: ")
    assert error.count("\n") == 1
    assert f"--plugin {SOFT_Q}" in error
    assert not imported()


@pytest.mark.parametrize("missing", [REWARD, ENCODER])
def test_every_part_must_be_named(missing: str, folder: str, capsys: pytest.CaptureFixture[str]) -> None:
    named = plugged(*(part for part in PARTS if part != missing))
    assert run("train", "--resume", folder, "--quiet", *named) == BAD_INPUT_STATUS
    assert f"--plugin {missing}" in capsys.readouterr().err


@pytest.mark.filterwarnings("ignore:returns are those of the published reward")
def test_an_own_reward_and_sampler_are_not_needed_to_act(folder: str, tmp_path: Path) -> None:
    named, scenarios = plugged(SOFT_Q, CURRENT, ENCODER), ("--episodes", "1", "--levels", "1")
    assert run("evaluate", folder, *scenarios, *named) == 0
    assert run("play", folder, *scenarios, "--html", str(tmp_path / "play.html"), *named) == 0
    assert run("export", folder, "--out", "exported", *named) == 0
    assert run("info", folder, *named) == 0


@pytest.mark.slow
def test_contract_tests_run_for_a_users_agents(site: Path) -> None:
    agents, root = Path(__file__).parent / "agents", Path(__file__).parents[2]
    files = [str(agents / name) for name in ("test_registry.py", "test_toys.py")]
    named = {"MARINENAV_AGENTS": f"{SOFT_Q} {PPO_KL}", "PYTHONPATH": f"{site}{os.pathsep}{root}"}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-k", "my_parts", *files],
        cwd=root,
        env=os.environ | named,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout
    assert all(part in done.stdout for part in ("passed", "deselected"))


# The tiny world differs from that of the file.
@pytest.mark.filterwarnings("ignore:.*its episodes are trained on")
@pytest.mark.parametrize(
    "words", [each for each in commands("marinenav train ") if "--resume" not in each], ids=" ".join
)
def test_commands_of_the_page(words: list[str]) -> None:
    if "training_schedule.scenarios=crossing.json" in words:
        import_module("my_parts.crossing").write(Path("crossing.json"), 4)
    trained(*words, "total_timesteps=24", trainer=ON_POLICY if "PPO" in words else None)
