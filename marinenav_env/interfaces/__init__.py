"""Interfaces of the world to other libraries, and scripted vessels."""
