"""What the VM's door of a node counts for monitoring, because it takes part in a cluster; one object per process."""


class Tally:
    """Plain numbers that only grow; to be used on the loop that answers."""

    def __init__(self) -> None:
        self.held = 0
        """Polls that waited because their scope was hidden (N06)."""
        self.without_right = 0
        """Requests that got 503 because the last beat was too old (N05)."""
        self.hidden_too_long = 0
        """Polls that got 503 because their scope stayed hidden."""
