"""Commands of ``marinenav`` by name. To add a command, add one module here and one line below.

The module of a command has a docstring whose first line is its help, ``add_arguments(parser)``, and ``run(arguments)``,
which returns the exit status. Modules that need torch are imported inside ``run``, so that help is printed quickly.
"""

from types import ModuleType

from train_RL_agents.commands import (
    bench,
    chart,
    demo,
    doctor,
    evaluate,
    export,
    falsify,
    identify,
    import_weights,
    info,
    play,
    plot,
    study,
    train,
)

COMMANDS: dict[str, ModuleType] = {
    "train": train,
    "evaluate": evaluate,
    "play": play,
    "demo": demo,
    "chart": chart,
    "export": export,
    "import": import_weights,
    "info": info,
    "identify": identify,
    "plot": plot,
    "study": study,
    "falsify": falsify,
    "bench": bench,
    "doctor": doctor,
}
