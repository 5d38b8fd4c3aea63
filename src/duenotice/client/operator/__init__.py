"""The operator's client: typed calls of the whole operator's API, blocking, for asyncio, and in process.

client · feed · pages        the two clients, their live feed and their lists
calls · request · answers    what each call sends, and what its answer means; pure
config · errors              how a client is set up; what a call can end with
"""
