"""The VM's agent: learns of events, prepares, approves at the right moment and puts everything back."""
