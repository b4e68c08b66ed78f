"""Suites: scenarios that policies are evaluated on, frozen by seed and hash."""

SUITE_NAMES = (
    *("paper", "fresh", "long", "currents", "crowd", "noise", "vessels", "weather", "faults", "rules", "imazu"),
    *("encounters", "imazu_own", "encounters_own", "dnv", "dnv_own", "imazu_ntnu", "imazu_ntnu_own", "harbours"),
    *("unruly", "candidates", "candidates_weather"),
)
"""Names of all suites (``suites.SUITES``), which a command line is checked for before torch is imported."""
