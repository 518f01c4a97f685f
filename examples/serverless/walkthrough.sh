#: write a function
cat > hello.py <<'END'
import time

def main(payload):
    time.sleep(payload.get("seconds", 0))
    return {"hello": payload["name"]}
END

#: deploy it with one curl
python3 -c 'import json; print(json.dumps({
    "operationID": "fn-hello-001", "name": "hello", "namespace": "runtime-instance",
    "unit": {"specName": "cpu.small", "memory": "256Mi", "gpu": 0},
    "handler": {"source": open("hello.py").read(), "entry": "main"},
    "concurrency": 4, "minWorkers": 0, "maxWorkers": 3, "idleTimeoutSeconds": 10,
    "invocationTimeoutSeconds": 60, "retry": {"maxAttempts": 3, "backoffSeconds": [1]}}))' |
curl -s -X POST http://127.0.0.1:8080/api/v1/serverless/functions -H 'Content-Type: application/json' -d @- | jq

#: look at it: no worker runs
curl -s http://127.0.0.1:8080/api/v1/serverless/functions/hello | jq

#: call it
curl -s -X POST http://127.0.0.1:8080/api/v1/serverless/invocations \
  -H 'Content-Type: application/json' \
  -d '{"serverlessRequestID":"hello","invocationID":"inv-1","mode":"async","payload":{"name":"queue"}}' | jq

#: wait for the result
curl -s 'http://127.0.0.1:8080/api/v1/serverless/invocations/inv-1?wait=60s' | jq

#: call it and wait in one request
curl -s -X POST http://127.0.0.1:8080/api/v1/serverless/invocations \
  -H 'Content-Type: application/json' \
  -d '{"serverlessRequestID":"hello","mode":"sync","payload":{"name":"sync"}}' | jq

#: send the first call again: nothing runs twice
curl -s -X POST http://127.0.0.1:8080/api/v1/serverless/invocations \
  -H 'Content-Type: application/json' \
  -d '{"serverlessRequestID":"hello","invocationID":"inv-1","mode":"async","payload":{"name":"queue"}}' | jq

#: call it a hundred times
python3 -c 'import json; print(json.dumps({"invocations": [
    {"serverlessRequestID": "hello", "invocationID": f"many-{number}", "payload": {"name": str(number), "seconds": 2}}
    for number in range(100)]}))' |
curl -s -X POST http://127.0.0.1:8080/api/v1/serverless/invocations/batch -H 'Content-Type: application/json' -d @- | jq

#: watch one of them
curl -s -N --max-time 60 http://127.0.0.1:8080/api/v1/serverless/invocations/many-99/stream

#: list what has been done
curl -s 'http://127.0.0.1:8080/api/v1/serverless/invocations?function=hello&limit=5' | jq

#: deploy another one with kubectl
kubectl apply -f - <<'END'
apiVersion: runtime.lokiwager.io/v1alpha1
kind: GPUFunction
metadata: {name: shout, namespace: runtime-instance}
spec:
  unit: {specName: cpu.small, memory: 256Mi}
  handler:
    source: |
      def main(payload):
          return payload["text"].upper()
  maxWorkers: 1
END
kubectl get gpufunctions -n runtime-instance

#: call that one
curl -s -X POST http://127.0.0.1:8080/api/v1/serverless/invocations \
  -H 'Content-Type: application/json' \
  -d '{"serverlessRequestID":"shout","mode":"sync","payload":{"text":"from kubectl"}}' | jq

#: delete them
curl -s -i -X DELETE http://127.0.0.1:8080/api/v1/serverless/functions/hello
kubectl delete gpufunction shout -n runtime-instance
