"""The command line: one file per command group, imported when the command runs."""
