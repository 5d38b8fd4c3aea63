"""The operator's client: typed verbs for every call of the operator's API, blocking, for asyncio, and in process.

blocking   streaming   in_process    the clients and how each carries a request: sockets, asyncio streams, no network
    └──────────┼───────────┘
verbs · async_verbs                  one method per call; the second is made from the first by tools/async_verbs.py
talks · feed                         trying again, and the live feed, as talks that do no I/O
request · answer · errors · place    pure parts
"""
