"""How fast duenotice is, measured side by side with what it is compared to; nothing here is shipped."""
