// Command etcd is the stock server: etcd publishes its main package in a module that cannot be required.
package main

import (
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"
)

func main() { etcdmain.Main(os.Args) }
