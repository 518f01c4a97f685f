"""The kubelet's half of the node: Pods bound to it become running pods, and their state is reported."""
