"""Multi-step transitions, and replay on the device or in the host's memory."""
