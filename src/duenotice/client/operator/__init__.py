"""The operator's client: typed verbs for every call of the operator's API, blocking, for asyncio, and in process.

blocking · streaming                             the two clients and their live feeds
socket_carrier · stream_carrier · in_process     how a request reaches the service: sockets, asyncio, no network
verbs · async_verbs · listing · async_listing    a method for each call, the second made from the first; lists
talks · feed                                     trying again, and the live feed, as talks that do no I/O
request · answer · errors · place · base         pure parts
"""
