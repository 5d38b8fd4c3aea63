"""The older client of Microsoft.Maintenance: says what is pending for a VM, and has it now."""

import os
import sys

from azure.identity import ClientSecretCredential
from azure.mgmt.maintenance import MaintenanceManagementClient, __version__

url, ca, (tenant, token, subscription, group, vm) = sys.argv[1], sys.argv[2], sys.argv[3:]
credential = ClientSecretCredential(
    tenant, "old", token, authority=url, disable_instance_discovery=True, connection_verify=ca
)
client = MaintenanceManagementClient(
    credential, subscription, base_url=url, credential_scopes=[f"{url}/.default"], connection_verify=ca
)
where = (group, "Microsoft.Compute", "virtualMachines", vm)
(update,) = client.updates.list(*where)
applied = client.apply_updates.create_or_update(*where)
sys.stdout.write(f"{__version__} {update.impact_type} {update.status} {applied.status}{os.linesep}")
