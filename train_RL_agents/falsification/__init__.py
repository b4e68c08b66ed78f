"""Search for encounters in which a policy collides although the collision could be avoided."""
