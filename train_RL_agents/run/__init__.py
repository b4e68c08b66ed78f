"""A run on disk and in processes: folder, checkpoints, ranks, monitor, trace."""
