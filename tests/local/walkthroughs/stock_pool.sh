#: install the kind
kubectl apply -f config/crd/bases/runtime.lokiwager.io_stockpools.yaml

#: create a pool
curl -s -X POST http://127.0.0.1:8080/api/v1/operator/stockpools \
  -H 'Content-Type: application/json' \
  -d '{"operationID":"pool-g1-001","name":"pool-g1","namespace":"default","specName":"g1.1","image":"nginx:1.27","memory":"16Gi","gpu":1,"replicas":2}' | jq

#: look at the pool
kubectl get stockpools.runtime.lokiwager.io pool-g1 -o yaml

#: look at the deployments
kubectl get deployment -n default
