"""What Started does to a VM: drivers carry out an impact, and the dispatcher makes sure that each is done once."""
