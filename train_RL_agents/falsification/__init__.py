"""Search for encounters in which a policy collides although it need not."""
