"""Interfaces to Gymnasium, PettingZoo, stable-baselines3 and BenchMARL, and scripted policies."""


def register_environments() -> None:
    """Register ``MarineNav-v0`` with Gymnasium, which calls this by an entry point when it is imported."""
    import gymnasium

    gymnasium.register(
        "MarineNav-v0",
        "marinenav_env.interfaces.gymnasium_env:MarineNavGymEnv",
        vector_entry_point="marinenav_env.interfaces.gymnasium_env:MarineNavVectorEnv",
    )
