"""Published networks, and what they answer; as modules of their own, and as the TorchScript files that planners load.

The file PROBE has the weights of two published networks, observations, and what the networks answer to them in
float64. The float32 weights are kept as four planes of bytes each, which compress better. Layer names and computations
of the modules are those of the publication; see docs/published_weights.md.
"""

import io
import math
import warnings
from pathlib import Path

import numpy as np
import torch
from torch import nn

from train_RL_agents.agents import AGENTS
from train_RL_agents.run.published import published_config

DATA = Path(__file__).parents[2] / "data"
PROBE = DATA / "published_probe.npz"
REAL = DATA / "traced_AC_IQN_model.pt"
"""The published file of AC-IQN."""


def read_probe() -> dict[str, np.ndarray]:
    with np.load(PROBE) as file:
        return dict(file)


def weights_of(probe: dict[str, np.ndarray], name: str) -> dict[str, torch.Tensor]:
    prefix = f"{name}/weights/"
    planes = {key.removeprefix(prefix): probe[key] for key in probe if key.startswith(prefix)}
    return {
        key: torch.from_numpy(np.ascontiguousarray(np.moveaxis(value, 0, -1)).view("<f4")[..., 0])
        for key, value in planes.items()
    }


def encoder(inputs, outputs):
    return nn.Sequential(nn.Linear(inputs, outputs), nn.ReLU())


class Published(nn.Module):
    """The acting network of an agent: an observation as one tuple, and fractions for IQN."""

    def __init__(self, agent, buffer=False):
        super().__init__()
        self.agent, self.discrete = agent, agent in ("DQN", "IQN")
        self.self_encoder, self.object_encoder = encoder(7, 56), encoder(5, 40)
        if agent == "IQN":
            self.cos_embedding = nn.Linear(64, 256)
            pis = torch.arange(64.0, dtype=torch.float64) * math.pi
            if buffer:
                self.register_buffer("pis", pis)
            else:
                self.pis = pis
        self.hidden_layer, self.hidden_layer_2 = nn.Linear(256, 128), nn.Linear(128, 128)
        if agent == "SAC":
            self.output_layer_mu, self.output_layer_log_std = nn.Linear(128, 2), nn.Linear(128, 2)
        else:
            self.output_layer = nn.Linear(128, 25 if self.discrete else 2)

    def forward(self, observation, taus=None):
        own, objects, mask = observation
        seen = self.object_encoder(objects).masked_fill(mask[..., None] < 0.5, 0.0)
        x = torch.cat((self.self_encoder(own), seen.flatten(1)), 1)
        if taus is not None:
            x = x[:, None] * torch.relu(self.cos_embedding(torch.cos(taus[..., None] * self.pis)))
        x = torch.relu(self.hidden_layer_2(torch.relu(self.hidden_layer(x))))
        if self.agent == "SAC":
            return self.output_layer_mu(x), self.output_layer_log_std(x).clamp(-20.0, 2.0)
        answer = self.output_layer(x)
        return answer if self.discrete else 2.0 / math.pi * torch.atan(answer)


def example(count=1):
    """An observation as planners give it."""
    return tuple(torch.rand(count, *shape).double() for shape in ((7,), (5, 5), (5,)))


def program(module, *inputs):
    """A module as the content of a TorchScript file."""
    file = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        torch.jit.save(torch.jit.trace(module.double().eval(), inputs), file)
    return file.getvalue()


def program_of(agent, weights=None, **options):
    """A published network as the content of a TorchScript file."""
    module = Published(agent, **options)
    if weights is not None:
        module.load_state_dict(weights, strict=False)
    taus = (torch.rand(1, 32).double(),) if agent == "IQN" else ()
    return program(module, example(), *taus)


def observed(probe):
    """The observations in the file."""
    keys = {"self_state": "self_obs", "objects_state": "objects", "objects_mask": "mask"}
    return {name: torch.from_numpy(probe[key]) for name, key in keys.items()}


def named_weights(name, seed=1):
    """Weights of the published layers of an agent."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        agent = AGENTS[name](published_config(name).agent)
    return {key: each.detach() for key, each in agent.networks[agent.output_networks()[0]].named_parameters()}


def write_arrays(path, weights):
    np.savez(path, **{key: value.numpy() for key, value in weights.items()})
    return path


def import_command(name, file, out):
    return ["import", str(file), "--agent", name, "--out", str(out)]
