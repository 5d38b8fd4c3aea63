"""What Started does to a VM: drivers that bring an impact about, and the dispatcher that has each done once."""
