"""Stories that are played against a running service and are tests at the same time; knows no HTTP and no terminal."""
