"""Running a policy on scenarios, and recording the episodes."""
