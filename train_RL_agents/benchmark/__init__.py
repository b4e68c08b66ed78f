"""How fast the world, the policy, replay, the update and the whole loop are on this machine."""

PARTS = {
    "world": "the world under random actions: noise, step, observation, reward and resets",
    "policy": "actions of all robots: the agent's forward pass and its exploration",
    "insertion": "multi-step rows built from one vector step and written to replay",
    "sampling": "batches drawn from a full replay",
    "update": "losses, backward pass, clipping, optimiser, target and EMA weights; same batch",
    "collect": "world, policy and insertion, through TorchRL's collector",
    "loop": "the whole training loop, logging included, evaluation and saving left out",
    "growth": "how the world's rate grows with environments, and the time per update with replay",
}
"""What can be measured, and what each part is."""
MODES = {
    "eager": "every operation on its own",
    "compiled": "world, policy and losses in generated code",
    "captured": "replayed as CUDA graphs",
}
"""How the program can be run, and what that means."""
