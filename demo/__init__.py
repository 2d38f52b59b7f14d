"""A scripted day of three agents and a person, for the dashboard."""
