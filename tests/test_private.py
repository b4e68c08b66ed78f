"""Uses of private parts of the packages in tests, which should test behaviour."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("marinenav_env", "train_RL_agents", "tools")
MOST = 55
"""Uses that there may be: to be lowered with every one that goes, and never raised."""


def is_private(name):
    """Names with one underscore in front; ``_repr_html_`` and its like are protocols of others."""
    return name.startswith("_") and not name.startswith("__") and not name.endswith("_")


def private_names():
    """Names that the packages define: functions, classes, arguments, variables and attributes."""
    found = set()
    for path in (path for package in PACKAGES for path in (ROOT / package).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                found.add(node.name)
            elif isinstance(node, ast.Name):
                found.add(node.id)
            elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
                found.add(node.attr)
            elif isinstance(node, ast.arg):
                found.add(node.arg)
    return set(filter(is_private, found))


def root_of(node):
    """The name that a chain of attributes, calls and items begins with."""
    while isinstance(node, ast.Attribute | ast.Call | ast.Subscript):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else ""


def private_uses(text, known):
    """Lines and names of the uses of known private names in the text of a module.

    Counted are attributes of anything but ``self`` and ``cls``, imports, and texts as in
    ``monkeypatch.setattr(module, "_name", ...)`` and ``patch("package.module._name")``. Names that
    the packages do not define are not, nor is what belongs to another package, such as torch.
    """
    tree, found, others = ast.parse(text), [], set()
    for node in ast.walk(tree):
        for each in node.names if isinstance(node, ast.Import | ast.ImportFrom) else ():
            source = getattr(node, "module", None) or each.name
            if source.partition(".")[0] not in (*PACKAGES, "tests"):
                others.add((each.asname or each.name).partition(".")[0])
            elif isinstance(node, ast.ImportFrom):
                found.append((node.lineno, each.name))
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            own = isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")
            if not own and root_of(node) not in others:
                found.append((node.lineno, node.attr))
        elif isinstance(node, ast.Call) and node.args and root_of(node.args[0]) not in others:
            called = node.func.attr if isinstance(node.func, ast.Attribute) else root_of(node.func)
            if called in ("setattr", "getattr", "hasattr", "delattr", "patch", "object"):
                texts = (str(each.value) for each in node.args if isinstance(each, ast.Constant))
                found += [(node.lineno, word) for text in texts for word in text.split(".")]
    return [(line, name) for line, name in found if name in known]


@pytest.mark.heavy
def test_tests_use_few_private_parts():
    """Count uses of names with one underscore that the packages define; see private_uses."""
    known, counts = private_names(), {}
    for path in (ROOT / "tests").rglob("*.py"):
        uses = private_uses(path.read_text(), known)
        if uses:
            counts[str(path.relative_to(ROOT))] = len(uses)
    assert sum(counts.values()) <= MOST, counts
