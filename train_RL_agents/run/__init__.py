"""Files and processes of a run: folder, checkpoints, loggers, ranks, monitor."""
