"""Suites: scenarios that policies are evaluated on, frozen by seed and hash."""
