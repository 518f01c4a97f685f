"""The programs that stand between a pod's processes and the node agent.

Only the standard library, and few modules of it: they start with every pod and stay in memory as long as it runs.
"""
