"""Starting runs and resuming them: what is left where one is refused."""

import pytest

from marinenav_env import ConfigError
from tests.train_RL_agents.tiny_runs import new_run
from train_RL_agents.run.checkpoint import STATE
from train_RL_agents.training import _kept


@pytest.mark.parametrize("begun", [False, True])
def test_a_folder_goes_where_its_run_is_refused_but_not_once_it_has_begun(tmp_path, begun):
    run = new_run(tmp_path / "training")
    if begun:
        (run.checkpoints / STATE).touch()

    def refuse():
        raise ConfigError("no")

    with pytest.raises(ConfigError):
        _kept(refuse, run.path.parent)
    assert run.path.exists() == begun
