"""Studies: agents, settings and seeds from one file, trained, evaluated and compared."""
