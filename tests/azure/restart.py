"""Restarts a VM with the real SDK and waits for the end: `restart.py URL CA TENANT TOKEN SUBSCRIPTION GROUP VM`."""

import sys

from azure.identity import ClientSecretCredential
from azure.mgmt.compute import ComputeManagementClient

url, ca, tenant, token, subscription, group, vm = sys.argv[1:]
credential = ClientSecretCredential(
    tenant, "sdk", token, authority=url, disable_instance_discovery=True, connection_verify=ca
)
compute = ComputeManagementClient(
    credential, subscription, base_url=url, credential_scopes=[f"{url}/.default"], connection_verify=ca
)
poller = compute.virtual_machines.begin_restart(group, vm)
print("submitted", flush=True)  # noqa: T201
poller.wait()
print(poller.status(), flush=True)  # noqa: T201
