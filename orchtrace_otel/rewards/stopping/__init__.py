"""The stopping decision (O5): whether another step is worth its price."""
