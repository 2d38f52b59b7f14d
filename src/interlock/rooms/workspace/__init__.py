"""The workspace: settings, pause, recorded refusals, and the views over several rooms."""
