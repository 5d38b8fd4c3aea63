// The real client of Node: lists VMs, restarts one and waits for the end. The environment says where and as whom.
import { createRequire } from "node:module";

const { ComputeManagementClient } = createRequire(`${process.env.MODULES}/`)("@azure/arm-compute");
const { URL_OF, TENANT, TOKEN, SUBSCRIPTION, GROUP, VM } = process.env;

const credential = {
  async getToken() {
    const body = new URLSearchParams({
      grant_type: "client_credentials", client_id: "node", client_secret: TOKEN, scope: `${URL_OF}/.default`,
    });
    const answer = await (await fetch(`${URL_OF}/${TENANT}/oauth2/v2.0/token`, { method: "POST", body })).json();
    return { token: answer.access_token, expiresOnTimestamp: Date.now() + answer.expires_in * 1000 };
  },
};

const compute = new ComputeManagementClient(credential, SUBSCRIPTION, { endpoint: URL_OF });
const names = [];
for await (const vm of compute.virtualMachines.list(GROUP)) names.push(vm.name);
console.log(names.join(" "));
const restarting = compute.virtualMachines.restart(GROUP, VM);
await restarting.submitted();
console.log("submitted");
await restarting.pollUntilDone();
console.log("done");
