"""A slow scalar oracle of the world specification, in plain floats.

It is written from the specification alone and shares no code with the simulator, so that the
batched kernels can be tested against an independent second opinion. Clarity comes before speed.
"""
