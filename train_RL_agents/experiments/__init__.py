"""Training of several runs, given by seeds, a study file or a search, and the runner that trains them."""
