"""Parts of training whose speed benchmarks measure."""

PARTS = {
    "world": "the world under random actions: noise, step, observation, reward and resets",
    "policy": "actions of all robots: the agent's forward pass and its exploration",
    "replay": "batches drawn from a full replay; only for agents that have one",
    "update": "losses, gradients, optimiser, target and EMA weights; same batch or rollout",
    "loop": "the whole training loop, logging included, evaluation and saving left out",
}
"""Parts of training that can be measured, by name, with their descriptions."""
