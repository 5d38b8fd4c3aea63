"""The VMs' port: Scheduled Events and instance metadata over plain HTTP. It has no rules of its own."""
