"""A Pacemaker cluster as the agents see it, played by `pacemaker.sh`: the cluster is not ours, and not under test."""

from pathlib import Path

COMMANDS = ("crm_attribute", "crm_node", "crm_resource", "crm_simulate")
SCRIPT = Path(__file__).with_name("pacemaker.sh")


class Cluster:
    """The cluster's commands and what they remember, in a folder."""

    def __init__(self, folder: Path, nodes: list[str]) -> None:
        self.folder = folder
        self.bin = folder / "bin"
        self.bin.mkdir(parents=True)
        (folder / "nodes").write_text("".join(f"{n} {node} member\n" for n, node in enumerate(nodes, 1)))
        for command in COMMANDS:
            (self.bin / command).write_text(SCRIPT.read_text())
            (self.bin / command).chmod(0o755)

    def attribute(self, node: str, name: str) -> str | None:
        """An attribute of a node."""
        path = self.folder / "attributes" / node / name
        return path.read_text().rstrip("\n") if path.exists() else None
