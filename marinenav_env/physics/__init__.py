"""How vessels move: thrust, dynamics, current, weather and contact."""
