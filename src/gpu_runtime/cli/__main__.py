from gpu_runtime.cli.main import main

main()
