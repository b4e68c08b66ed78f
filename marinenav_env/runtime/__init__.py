"""How functions of tensors are run: layout, random numbers, generated code, graphs."""
