"""The order of the packages: imports run from higher to lower layers only."""

import ast
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import marinenav_env
import train_RL_agents

WORLD = (
    "support",
    "runtime",
    "config",
    "levels",
    "vessels",
    "waters",
    "state",
    "physics",
    "rules",
    "sensing",
    "specs",
    "scenarios",
    "stepping",
    "pictures",
    "env",
    "interfaces",
)
TRAINER = (
    "boat",
    "utils",
    "identification",
    "networks",
    "agents",
    "config",
    "policy_wrapper",
    "run",
    "evaluation",
    "figures",
    "environments",
    "learning",
    "exporting",
    "torchrl_trainer",
    "experiments",
    "api",
    "commands",
    "__main__",
)
"""Packages and modules, the lowest first."""
EVALUATION = ("running", "suites", "judging", "comparing")
"""Rooms of train_RL_agents.evaluation, the lowest first."""
MOST_FLOORS = 5
"""Largest number of modules of a room that import each other in a chain."""


@cache
def modules(package):
    """The modules that each module of a package imports, also inside functions and for types."""
    root = Path(package.__file__).parent
    names = {
        ".".join(path.relative_to(root.parent).with_suffix("").parts).removesuffix(".__init__"): path
        for path in root.rglob("*.py")
    }
    found = {}
    for name, path in names.items():
        found[name] = set()
        for node in ast.walk(ast.parse(path.read_text())):
            imported = []
            if isinstance(node, ast.ImportFrom) and node.module:
                imported = [f"{node.module}.{each.name}" for each in node.names] + [node.module]
            elif isinstance(node, ast.Import):
                imported = [each.name for each in node.names]
            known = [each for each in imported if each in names and each != name]
            # `from package import name` reaches the module, not the package, where there is one.
            inner = [each for each in known if each.count(".") == max(e.count(".") for e in known)]
            found[name].update(inner)
    return found


@pytest.mark.heavy
@pytest.mark.parametrize("package", [marinenav_env, train_RL_agents], ids=lambda each: each.__name__)
def test_no_module_imports_itself_by_way_of_others(package):
    # The package's own list of exports names modules; nothing is imported through it.
    graph = {name: used - {package.__name__} for name, used in modules(package).items()}
    list(TopologicalSorter(graph).static_order())


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("package", "layers"),
    [(marinenav_env, WORLD), (train_RL_agents, TRAINER)],
    ids=["marinenav_env", "train_RL_agents"],
)
def test_no_import_runs_from_a_lower_to_a_higher_layer(package, layers):
    def layer(name):
        return layers.index(name.split(".")[1])

    upwards = [
        f"{name} imports {other}"
        for name, used in modules(package).items()
        for other in used
        if "." in name and "." in other and layer(other) > layer(name)
    ]
    assert upwards == []


@pytest.mark.heavy
def test_the_rooms_of_evaluation_have_an_order_and_few_floors():
    prefix = "train_RL_agents.evaluation."
    used = {
        name.removeprefix(prefix): {other.removeprefix(prefix) for other in others if other.startswith(prefix)}
        for name, others in modules(train_RL_agents).items()
        if name.startswith(prefix)
    }

    def room(name):
        return EVALUATION.index(name.split(".")[0])

    assert [(name, other) for name, others in used.items() for other in others if room(other) > room(name)] == []

    def floor(name):
        return 1 + max((floor(other) for other in used[name] if room(other) == room(name)), default=0)

    assert max(map(floor, used)) <= MOST_FLOORS


def test_the_world_knows_nothing_of_training():
    for name, path in ((p.stem, p) for p in Path(marinenav_env.__file__).parent.rglob("*.py")):
        assert "train_RL_agents" not in path.read_text(), name
