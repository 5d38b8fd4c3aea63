"""The VM's door: Scheduled Events and instance metadata over plain HTTP. It holds no rule of the promise itself."""
