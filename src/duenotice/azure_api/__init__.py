"""The Azure door: the management calls that `az` and the Azure SDKs make, as commands to the engine (M01-M13)."""
