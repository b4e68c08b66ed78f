"""Training of several runs: where they come from (seeds, a study file, a search), and one runner for all."""
