"""Parts of users in tests."""

import pytest

from marinenav_env.support import plugins


def allow_only(monkeypatch: pytest.MonkeyPatch, *references: str) -> None:
    """Let only these parts be imported, as in a process whose user named them."""
    monkeypatch.setattr(plugins, "_allowed_references", set(references))
