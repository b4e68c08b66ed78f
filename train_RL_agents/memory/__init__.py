"""Experience: multi-step rows and replay on the device."""
