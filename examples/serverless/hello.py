from gpu_runtime.serverless.framework import function, run


@function
def main(payload: dict[str, str]) -> dict[str, str]:
    return {"hello": payload["name"]}


run()
