#: seed two stock reservations
curl -s -X POST http://127.0.0.1:8080/api/v1/operator/stock-units \
-H 'Content-Type: application/json' \
-d '{
"operationID":"stock-g1-demo-001",
"specName":"g1.1",
"memory":"16Gi",
"gpu":1,
"replicas":2
}' | jq

#: check the operator job
curl -s http://127.0.0.1:8080/api/v1/operator/jobs/stock-g1-demo-001 | jq

#: consume one ready stock unit
curl -s -X POST http://127.0.0.1:8080/api/v1/gpu-units \
-H 'Content-Type: application/json' \
-d '{
"operationID":"unit-demo-001",
"name":"demo-instance",
"namespace":"runtime-instance",
"specName":"g1.1",
"image":"python:3.12",
"access":{
"primaryPort":"http",
"scheme":"http"
},
"template":{
"command":["python"],
"args":["-m","http.server","8080"],
"ports":[{"name":"http","port":8080}]
}
}' | jq

#: list the active units
kubectl get gpuunits -n runtime-instance

#: inspect the active unit
kubectl get gpuunit demo-instance -n runtime-instance -o yaml

#: inspect its workload
kubectl get deploy,svc,pod -n runtime-instance | grep demo-instance

#: check stock
kubectl get gpuunits -n runtime-stock
kubectl get gpuunit -n runtime-stock

#: check the active runtime
kubectl get gpuunits -n runtime-instance
kubectl get gpuunit demo-instance -n runtime-instance -o yaml
