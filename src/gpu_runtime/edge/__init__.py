"""What every HTTP server of the product needs: host names, listening and draining, open files, and answers to malformed
HTTP."""
