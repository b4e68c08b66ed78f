"""Support: checks of values, seeds, plugins, files and optional packages."""
