"""Checks of values, plugins, files and optional packages."""
