"""The world for other libraries, and vessels that follow a script."""
