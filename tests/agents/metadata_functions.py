"""Runs under Debian's Python, in a VM: what cloud-init and WALinuxAgent, unmodified, make of the metadata, as JSON."""

import json
import sys

from azurelinuxagent.common.protocol.imds import get_imds_client  # type: ignore[import-not-found]
from cloudinit.sources import DataSourceAzure  # type: ignore[import-not-found]

told = DataSourceAzure.get_metadata_from_imds(retries=0, api_version=DataSourceAzure.IMDS_VER_WANT)
network = DataSourceAzure.generate_network_config_from_instance_network_metadata(told["network"])
waagent = get_imds_client("192.0.2.99")
compute = waagent.get_compute()
json.dump(
    {
        "cloud-init": {
            "version": DataSourceAzure.IMDS_VER_WANT,
            "host": DataSourceAzure._hostname_from_imds(told),
            "name": told["compute"]["name"],
            "interfaces": list(network["ethernets"]),
        },
        "waagent": {
            "healthy": waagent.validate(),
            "name": compute.name,
            "vm_id": compute.vmId,
            "origin": compute.image_origin,
        },
    },
    sys.stdout,
)
