"""Multi-step transitions and replay on the device."""
