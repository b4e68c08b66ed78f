"""Multi-step rows and replay on the device."""
