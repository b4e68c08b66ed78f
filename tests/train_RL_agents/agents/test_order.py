"""The order of the parameters: saved states of the optimiser count them."""

import pytest

from tests.train_RL_agents.helpers import agent_of

ENCODERS = ["self_encoder", "object_encoder"]
HIDDEN = ["hidden_layer", "hidden_layer_2"]
ACTOR = [*ENCODERS, *HIDDEN, "output_layer"]
ORDER = {
    "AC-IQN": {"actor": ACTOR, "critic_0": [*ENCODERS, "cos_embedding", *HIDDEN, "output_layer"]},
    "IQN": {"critic_0": [*ENCODERS, "cos_embedding", *HIDDEN, "output_layer", "value_layer"]},
    "DDPG": {"actor": ACTOR, "critic_0": ACTOR},
    "DQN": {"critic_0": [*ACTOR, "value_layer"]},
    "SAC": {"actor": [*ENCODERS, *HIDDEN, "output_layer_mu", "output_layer_log_std"], "critic_0": ACTOR},
    "Rainbow": {"critic": [*ACTOR, "value_layer"]},
}


@pytest.mark.parametrize("name", ORDER)
def test_parameters_are_in_the_order_of_saved_runs(name):
    networks = agent_of(name).networks
    for part, layers in ORDER[name].items():
        names = [key.split(".")[0] for key, _ in networks[part].named_parameters()]
        assert list(dict.fromkeys(names)) == layers
    others = [part for part in networks if not part.startswith("critic_")]
    assert others == [part for part in ("actor", "critic", "temperature") if part in networks]
    if "actor" in networks:
        assert next(iter(networks)) == "actor"
    if "temperature" in networks:
        assert list(networks)[-1] == "temperature"
