"""The processes of the product. processes.py declares them; the `main` of each process is in its own module."""
