"""An HTTP/1.1 client on the standard library alone: agents and clients take it onto VMs."""
