"""The kinds of handlers, by name; each is loaded when a configuration asks for it."""

KINDS = {
    "command": "duenotice.agent.handlers.command:CommandHandler",
    "systemd": "duenotice.agent.handlers.systemd:Systemd",
    "haproxy": "duenotice.agent.handlers.haproxy:Haproxy",
    "patroni": "duenotice.agent.handlers.patroni:Patroni",
    "postgresql": "duenotice.agent.handlers.postgresql:Postgresql",
    "kubernetes": "duenotice.agent.handlers.kubernetes:Kubernetes",
    "checkpoint": "duenotice.agent.handlers.checkpoint:Checkpoint",
    "webhook": "duenotice.agent.handlers.webhook:Webhook",
    "readiness": "duenotice.agent.handlers.readiness:Readiness",
    "log": "duenotice.agent.handlers.log:Log",
    "shutdown": "duenotice.agent.handlers.shutdown:Shutdown",
}
