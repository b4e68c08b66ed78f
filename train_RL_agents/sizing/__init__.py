"""How large a run is: memory plan and profiles."""
