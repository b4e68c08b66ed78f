"""Export of policies to files for other programs."""
