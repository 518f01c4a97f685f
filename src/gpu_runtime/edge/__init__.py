"""What every HTTP server of the product needs: its names, its port, its open files, and answers to malformed HTTP."""
