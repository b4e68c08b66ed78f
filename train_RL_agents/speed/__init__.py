"""Benchmarks of the world, the policy, replay, the update and the training loop on this machine."""

PARTS = {
    "world": "the world under random actions: noise, step, observation, reward and resets",
    "policy": "actions of all robots: the agent's forward pass and its exploration",
    "insertion": "collected steps made to rows of replay, or a rollout's advantages",
    "sampling": "batches drawn from a full replay",
    "update": "losses, gradients, optimiser, target and EMA weights; same batch or rollout",
    "collect": "world, policy and insertion, through TorchRL's collector",
    "loop": "the whole training loop, logging included, evaluation and saving left out",
    "growth": "how the world's rate grows with environments, and the time per update with replay",
}
"""Parts of training that can be measured, by name, with their descriptions."""
MODES = {
    "eager": "every operation on its own",
    "compiled": "world, policy and losses in generated code",
    "captured": "replayed as CUDA graphs",
}
"""Modes of execution that can be measured, by name, with their descriptions."""
