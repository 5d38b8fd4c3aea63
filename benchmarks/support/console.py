"""What a person sees while it runs: plain lines, as a spinner's thread would take time from the load's core."""

from rich.console import Console

console = Console(highlight=False)
if not console.is_terminal:
    console.width = 150


def title(name: str, sentence: str) -> None:
    """A measurement begins."""
    console.print(f"\n[bold cyan]{name}[/]  {sentence}")


def step(text: str) -> None:
    """Something was done or seen."""
    console.print(f"  [dim]{text}[/]", soft_wrap=True)
