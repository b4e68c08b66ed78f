"""Motion of vessels: thrust, dynamics, current, weather and contact."""
