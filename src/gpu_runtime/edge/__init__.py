"""What every HTTP server of the product needs: host names, ports, open files, and answers to malformed HTTP."""
