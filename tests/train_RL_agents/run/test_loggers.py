"""Loggers beside TensorBoard get the same scalars, also when a run is resumed."""

import logging
import sys
from pathlib import Path

import pytest
from torchrl.record.loggers.csv import CSVLogger

from marinenav_env.support.validation import ConfigError
from tests.own_parts import allow_only
from tests.train_RL_agents.tiny_runs import new_run, scalars, train
from train_RL_agents.run.run_folder import RunFolder
from train_RL_agents.run.run_writer import LOG_FILE
from train_RL_agents.torchrl_trainer import TorchRLTrainer

OWN = f"{__name__}:Own"


class Own(CSVLogger):
    """A user's own: fails at the second entry."""

    def log_scalar(self, name: str, value: float, step: int | None = None) -> None:
        if step == 16:
            raise RuntimeError("the server\nis gone")
        super().log_scalar(name, value, step)


def table(folder: Path) -> dict[str, list[tuple[int, float]]]:
    """Step and value by tag in the files of torchrl's CSVLogger."""
    found = {}
    for file in (folder / "scalars").rglob("*.csv"):
        rows = [line.split(",") for line in file.read_text().splitlines()]
        tag = str(file.relative_to(folder / "scalars").with_suffix(""))
        found[tag] = [(int(step), float(value)) for step, value in rows]
    return found


def resumed(run: RunFolder, at: int) -> RunFolder:
    again = RunFolder.open(run.path)
    again.writer.resumed_at = at
    return again


def test_every_logger_gets_what_tensorboard_gets(tmp_path: Path, surroundings: None) -> None:
    run = new_run(tmp_path, "loggers=tensorboard,csv", "monitor=false")
    train(run, stop_at=80)
    train(run)
    expected, found = scalars(run), table(run.path / "csv")
    assert found.keys() == expected.keys()
    for tag, values in expected.items():
        # TensorBoard has single precision.
        assert [step for step, _ in found[tag]] == [step for step, _ in values], tag
        assert [value for _, value in found[tag]] == pytest.approx([value for _, value in values])
    settings = (run.path / "csv" / "texts" / "hparams0.txt").read_text().splitlines()
    assert "trainer.train_freq: 8" in settings


def test_what_came_after_the_checkpoint_is_replaced(tmp_path: Path) -> None:
    run = new_run(tmp_path, "loggers=csv")
    for step in (8, 16, 24):
        run.writer.log({"losses/loss": step / 2}, step)
    run.writer.close()
    file = run.path / "csv" / "scalars" / "losses" / "loss.csv"
    file.write_text(file.read_text()[:-3])  # killed while it wrote
    again = resumed(run, 8)
    again.writer.log({"losses/loss": 3.0}, 16)
    again.writer.close()
    assert table(run.path / "csv") == {"losses/loss": [(8, 4.0), (16, 3.0)]}
    assert not list(run.path.glob("events*"))


def test_a_missing_package_is_named_before_the_run_begins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "wandb", None)
    run = new_run(tmp_path, "loggers=tensorboard,wandb")
    with pytest.raises(ConfigError, match=r"^wandb is not .* 'marinenav\[wandb\]'$"):
        TorchRLTrainer(run, quiet=True)
    assert not (run.path / LOG_FILE).exists()


def test_a_logger_of_the_users_own_may_fail(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    allow_only(monkeypatch, OWN)
    run = new_run(tmp_path, f"loggers={OWN},csv")
    run.writer.begin()
    with caplog.at_level(logging.WARNING):
        for step in (8, 16, 24):
            run.writer.log({"a": 1.0}, step)
    run.writer.release()
    assert [record.getMessage() for record in caplog.records] == [
        f"the logger {OWN} failed and is left out from now on (the server)"
    ]
    assert table(run.path / run.path.name) == {"a": [(8, 1.0)]}
    assert table(run.path / "csv") == {"a": [(8, 1.0), (16, 1.0), (24, 1.0)]}


def test_only_loggers_are_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    allow_only(monkeypatch, "pathlib:Path")
    with pytest.raises(ConfigError, match=r"derived from torchrl\.record\.loggers\.Logger$"):
        new_run(tmp_path, "loggers=pathlib:Path").writer.begin()


@pytest.mark.slow
def test_weights_and_biases(tmp_path: Path, surroundings: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the real package, offline; CSV files have what is not rounded."""
    pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_MODE", "offline")
    run = new_run(tmp_path, "loggers=csv,wandb")
    train(run, stop_at=80)
    train(run)
    assert "left out" not in (run.path / LOG_FILE).read_text()
    expected = table(run.path / "csv")
    number = (run.path / "wandb_run_id").read_text()
    parts = sorted((run.path / "wandb").glob(f"offline-run-*-{number}/run-{number}.wandb"))
    assert len(parts) == 2
    contents = [part.read_bytes() for part in parts]
    for tag in ("losses/loss", "eval/success_rate", "Result/1_success_rate", "charts/SPS"):
        for step, value in expected[tag]:
            content = contents[step > 80]
            assert tag.encode() in content, (tag, step)
            assert repr(value).removesuffix(".0").encode() in content, (tag, step)
    assert all(b"trainer.train_freq" in content for content in contents)
