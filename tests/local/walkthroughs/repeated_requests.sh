#: open the API docs
curl -s http://127.0.0.1:8080/swagger/index.html

#: create a stock pool with a real runtime template
curl -s -X POST http://127.0.0.1:8080/api/v1/operator/stockpools \
-H 'Content-Type: application/json' \
-d '{
"operationID": "stock-g1-demo-001",
"name": "pool-g1-demo",
"namespace": "default",
"specName": "g1.1",
"image": "python:3.12-slim",
"memory": "16Gi",
"gpu": 1,
"replicas": 1,
"template": {
"command": ["python"],
"args": ["-m", "http.server", "8080"],
"envs": [
{"name": "MODEL_ID", "value": "demo-model"}
],
"ports": [
{"name": "http", "port": 8080, "protocol": "TCP"}
]
}
}' | jq

#: send the same request again
curl -s -X POST http://127.0.0.1:8080/api/v1/operator/stockpools \
-H 'Content-Type: application/json' \
-d @same-request.json | jq

#: reuse the same operationID with a different payload
curl -s -X POST http://127.0.0.1:8080/api/v1/operator/stockpools \
-H 'Content-Type: application/json' \
-d '{
"operationID": "stock-g1-demo-001",
"name": "pool-g1-demo",
"namespace": "default",
"specName": "g2.1",
"replicas": 1
}' | jq

#: inspect the pool
kubectl get stockpool pool-g1-demo -n default -o yaml

#: inspect the deployment
kubectl get deployment pool-pool-g1-demo -n default

#: inspect the service
kubectl get service pool-pool-g1-demo -n default

#: inspect the message of the condition
kubectl get stockpool pool-g1-demo -n default -o jsonpath='{.status.conditions[?(@.type=="Ready")].message}'

#: send an invalid memory quantity
curl -s -X POST http://127.0.0.1:8080/api/v1/operator/stockpools \
-H 'Content-Type: application/json' \
-d '{
"operationID": "stock-invalid-001",
"name": "pool-invalid",
"namespace": "default",
"specName": "g1.1",
"memory": "not-a-quantity",
"replicas": 1
}' | jq
