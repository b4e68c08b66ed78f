"""What comes with the package is found by name, in a checkout and in an installed package."""

from pathlib import Path

import pytest

from train_RL_agents.utils import shipped as module
from train_RL_agents.utils.shipped import find_shipped, shipped_paths


@pytest.mark.parametrize("given", ["ac_iqn", "AC-IQN", "pretrained/ac_iqn"])
def test_a_name_is_found_from_any_folder(given, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert find_shipped("pretrained", Path(given)) == shipped_paths("pretrained")["ac_iqn"]


def test_an_installed_package_has_its_own(tmp_path, monkeypatch):
    (tmp_path / "shipped" / "configs").mkdir(parents=True)
    (tmp_path / "shipped" / "configs" / "mine.json").write_text("{}")
    monkeypatch.setattr(module, "PACKAGE_FOLDER", tmp_path)
    assert list(shipped_paths("configs")) == ["mine"]
