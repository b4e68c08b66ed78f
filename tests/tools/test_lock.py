"""tools/requirements.lock has a version of everything that setup.cfg asks for. It is made by

    uv pip compile setup.cfg --extra all --extra dev --universal --python-version 3.11 \
        --no-header --no-annotate -o tools/requirements.lock
"""

from configparser import ConfigParser
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]


def wanted(names):
    """Requirements of setup.cfg: of the project, and of extras, also of those in them."""
    config = ConfigParser()
    config.read(ROOT / "setup.cfg")
    texts = [config["options"]["install_requires"], *(config["options.extras_require"][name] for name in names)]
    lines = [line.strip() for text in texts for line in text.splitlines()]
    for each in (Requirement(line) for line in lines if line and not line.startswith("#")):
        if each.name == "marinenav":
            yield from wanted(each.extras)
        else:
            yield each


def test_the_lock_has_a_version_of_everything_within_its_range():
    locked = {}
    for each in map(Requirement, (ROOT / "tools/requirements.lock").read_text().splitlines()):
        if each.marker is None or each.marker.evaluate():
            (pin,) = each.specifier
            assert pin.operator == "==", each
            locked[canonicalize_name(each.name)] = pin.version
    for each in wanted(["all", "dev"]):
        if each.marker is None or each.marker.evaluate():
            assert each.specifier.contains(locked[canonicalize_name(each.name)]), each
