"""`gpu-runtime up`: the whole product on this machine, each process a supervised child."""
