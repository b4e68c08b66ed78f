"""Builds the wheel with configs/ and pretrained/ in it; all metadata is in setup.cfg."""

import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py


class BuildWithData(build_py):
    """Copies both folders into the package, where train_RL_agents.utils.shipped looks for them, and the vessels."""

    def run(self):
        super().run()
        if not self.editable_mode:
            for name in ("configs", "pretrained"):
                target = Path(self.build_lib, "train_RL_agents", "shipped", name)
                shutil.copytree(name, target, dirs_exist_ok=True)
            vessels = Path(self.build_lib, "marinenav_env", "shipped", "vessels")
            shutil.copytree("configs/vessels", vessels, dirs_exist_ok=True)  # for marinenav_env.vessels


setup(cmdclass={"build_py": BuildWithData})
