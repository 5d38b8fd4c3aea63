"""A process without a journal that answers VMs for a node: it reads what the node tells, and passes on what VMs ask."""
