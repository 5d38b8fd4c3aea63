"""What the measurements share: processes, load, fleets, results. Measures nothing itself."""
