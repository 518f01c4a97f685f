"""The command line: one file a group, loaded when it is asked for."""
