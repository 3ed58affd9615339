"""R2: the reward of one agent: what the team loses without it, and how it did in its group."""
