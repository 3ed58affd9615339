"""R7: rewards of who is given what, how it runs, what is said, and how it is merged."""
