"""Simulated providers, so that the first request works without any key; all they say is labelled as simulated."""
