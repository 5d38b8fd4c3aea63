"""A hypervisor of ours: what libvirt says of its domains, who may ask over its bridge, and what is done to a domain."""
