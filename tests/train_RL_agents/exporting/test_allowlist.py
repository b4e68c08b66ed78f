"""Exported files that would do more than compute."""

import io
import json
import re
import zipfile

import pytest
import torch

from marinenav_env import ConfigError
from tests.train_RL_agents.exporting.test_export import make_policy
from train_RL_agents.agents import AGENTS
from train_RL_agents.exporting import allowlist, torchscript
from train_RL_agents.exporting.export import FORMATS, NUM_CHECKS, DeployedAgent
from train_RL_agents.exporting.loading import load_network

REFUSED = "damaged, or does more than compute"


def made(folder, kind, name="DQN"):
    """The file of an untrained agent."""
    network = DeployedAgent(make_policy(name).agent)
    path = folder / FORMATS[kind].file_name(name)
    path.write_bytes(FORMATS[kind].make_content(network, network.inputs(NUM_CHECKS)))
    return path


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A good file of each format that is looked at."""
    folder = tmp_path_factory.mktemp("good")
    return {kind: made(folder, kind) for kind in ("torchscript", "torch")}


def changed(path, folder, change, more=None):
    """A copy with other entries; ``change`` gets name and content."""
    copy = folder / path.name
    with zipfile.ZipFile(path) as given, zipfile.ZipFile(copy, "w") as taken:
        for name in given.namelist():
            taken.writestr(name, change(name, given.read(name)))
        root = name.partition("/")[0]
        for name, content in (more or {}).items():
            taken.writestr(f"{root}/{name}", content)
    return copy


@pytest.mark.parametrize("name", AGENTS)
def test_own_scripts_pass(name, tmp_path):
    load_network(made(tmp_path, "torchscript", name), 3)


@pytest.mark.slow
@pytest.mark.parametrize("name", AGENTS)
def test_own_programs_pass(name, tmp_path):
    load_network(made(tmp_path, "torch", name), 3)


@pytest.mark.parametrize(
    "line",
    [
        "torch.save(1, 'victim')",
        "y = torch.from_file('victim', True, 4, dtype=0)",
        "while True: 1",
        "ops.debugprims.load_tensor('victim', [1], [1])",
        "z = __torch__.torch.classes.a.B()",
    ],
)
def test_scripts_that_act_are_refused(line, files, tmp_path):
    def change(name, content):
        return content.replace(b"    return", f"    {line}\n    return".encode())

    path = changed(files["torchscript"], tmp_path, change)
    with pytest.raises(ConfigError, match=REFUSED):
        load_network(path, 3)


@pytest.mark.parametrize("name", ["save", "classes", "for"])
def test_networks_with_forbidden_names_are_refused_by_name(name, tmp_path):
    network = torch.nn.Sequential()
    network.add_module(name, torch.nn.Linear(3, 3))
    path = tmp_path / "policy.pt"
    path.write_bytes(torchscript.trace_to_bytes(network, (torch.zeros(1, 3),), 1))
    with pytest.raises(ConfigError, match=f"{REFUSED}.*may not have the word {name}, not even as a name"):
        load_network(path, 1)


def test_the_case_of_a_name_hides_no_script(files, tmp_path):
    given = tmp_path / "given.pt"
    with zipfile.ZipFile(files["torchscript"]) as one, zipfile.ZipFile(given, "w") as two:
        for name in one.namelist():
            content = one.read(name).replace(b"    return", b"    torch.save(1, 'a')\n    return")
            two.writestr(name.replace(".py", ".PY"), content)
    with pytest.raises(ConfigError, match=REFUSED):
        allowlist.read_script(given)


@pytest.mark.parametrize("name", ["code/a.so", "extra/producer_info.json"])
def test_scripts_with_further_files_are_refused(name, files, tmp_path):
    path = changed(files["torchscript"], tmp_path, lambda _, content: content, {name: b"x"})
    with pytest.raises(ConfigError, match=REFUSED):
        allowlist.read_script(path)


def test_scripts_that_act_while_loaded_are_refused(files, tmp_path):
    def change(name, content):
        method = b"  def __setstate__(self, state: int) -> NoneType:\n    return None\n"
        return content + method if name.endswith(".py") else content

    with pytest.raises(ConfigError, match=REFUSED):
        allowlist.read_script(changed(files["torchscript"], tmp_path, change))


def put(key, value):
    """A change of every value of a key in the graph."""

    def change(name, content):
        if not name.endswith("models/model.json"):
            return content

        def replaced(part):
            return part | {key: value} if key in part else part

        return json.dumps(json.loads(content, object_hook=replaced)).encode()

    return change


CALL = "__import__('os').system('touch victim')"


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("expr_str", CALL),
        ("expr_str", "exec(chr(95))"),
        ("guards_code", [CALL]),
        ("target", "torch.serialization.os.system"),
        ("target", "torch.ops.aten.from_file.default"),
        ("in_spec", '[1, {"type":"collections.defaultdict", "context": "{}", "children_spec": []}]'),
        ("out_spec", '[1, {"\\u0074ype": "a.B", "context": "null", "children_spec": []}]'),
        (
            "in_spec",
            json.dumps(
                [1, {"type": "builtins.dict", "children_spec": [], "context": '{"\\u005f_enum__": true, "fqn": "a:B"}'}]
            ),
        ),
    ],
)
def test_programs_that_name_more_than_arithmetic_are_refused(key, value, files, tmp_path):
    path = changed(files["torch"], tmp_path, put(key, value))
    with pytest.raises(ConfigError, match=REFUSED):
        load_network(path, 3)


@pytest.mark.parametrize(
    "name",
    [
        "data/aotinductor/model/a.so",
        "data/constants/custom_obj_0",
        "data/constants/opaque_obj_1",
        "data/constants/OPAQUE_OBJ_0",
        "MODELS/b.json",
    ],
)
def test_programs_with_code_or_objects_are_refused(name, files, tmp_path):
    path = changed(files["torch"], tmp_path, lambda _, content: content, {name: b"x"})
    with pytest.raises(ConfigError, match=re.escape(path.name)):
        allowlist.read_program(path)


class Memory:
    def __reduce__(self):
        return bytearray, (1000,)


def test_programs_whose_example_asks_for_memory_are_refused(files, tmp_path):
    """torch makes what it asks for, of any size."""
    buffer = io.BytesIO()
    torch.save(Memory(), buffer)
    path = changed(
        files["torch"], tmp_path, lambda _, content: content, {"data/sample_inputs/more.pt": buffer.getvalue()}
    )
    with pytest.raises(ConfigError, match=re.escape(path.name)):
        allowlist.read_program(path)
    path = changed(files["torch"], tmp_path, lambda _, content: content, {"data/sample_inputs/more.pt": b"nothing"})
    allowlist.read_program(path)
