"""Networks as pure functions, and the adapters that pick their parts from the spaces of an environment."""
