"""A scripted day of three agents and a person, to be looked at in the dashboard."""
