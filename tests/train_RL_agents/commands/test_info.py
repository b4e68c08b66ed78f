"""marinenav info."""

from dataclasses import replace

from train_RL_agents.commands.cli import main
from train_RL_agents.run.checkpoint import NOT_EVALUATED_NOTE, STATE_FILE, STOPPED_POLICY_FILE


def test_info_about_the_machine(capsys):
    assert main(["info"]) == 0
    text = capsys.readouterr().out
    for word in ("python: ", "torch: ", "torchrl: ", "tensordict: ", "device: cpu", "threads: ", "agent: AC-IQN"):
        assert word in text


def test_info_about_a_policy(capsys, policy):
    assert main(["info", str(policy)]) == 0
    text = capsys.readouterr().out
    assert "policy after 1,234 env-steps" in text
    assert "agent_type=DQN" in text
    assert "agent.critics=1" in text
    assert "trainer." not in text
    assert "success_rate 0.500" in text


def test_info_about_runs(capsys, sweep):
    run = sweep[1]
    metrics = {"success_rate": 0.25, "avg_time": None, "avg_return": 1.0}
    run.add_policy("policy_000000000100.pt", 100, metrics)
    (run.checkpoints / STATE_FILE).touch()
    assert main(["info", str(run.path.parent)]) == 0
    text = capsys.readouterr().out
    total = f"{run.config.total_timesteps:,}"
    assert f"seed 0, evaluated up to 0 of {total} env-steps, no training state yet" in text
    assert f"seed 1, evaluated up to 100 of {total} env-steps, can be resumed" in text
    assert "policy_000000000100.pt: success_rate 0.250, avg_return 1.000 (latest, best)" in text
    run.add_policy(STOPPED_POLICY_FILE, 150, {"note": NOT_EVALUATED_NOTE})
    run.config = replace(run.config, save_replay=False)
    run.write_config()
    assert main(["info", str(run.path)]) == 0
    text = capsys.readouterr().out
    assert f"evaluated up to 100 of {total} env-steps, cannot be resumed (save_replay=false)" in text


def test_info_about_a_configuration(capsys):
    """It has what the files that it extends state, too."""
    assert main(["info", "configs/iqn_defensive.json"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "  training.reward.off_course_penalty=-1" in lines
    assert "  total_timesteps=3500000" in lines
