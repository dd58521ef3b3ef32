// Lists, forks and deletes with the client that openapi-typescript and openapi-fetch make from openapi.json.
import createClient from "openapi-fetch";
import type { paths } from "./ramet.js";

const environment = (name: string): string => {
  const value = process.env[name];
  if (value === undefined) throw new Error(`${name} is not set`);
  return value;
};

const key = `${environment("RAMET_PUBLIC_KEY")}:${environment("RAMET_SECRET_KEY")}`;
const client = createClient<paths>({
  baseUrl: environment("RAMET_BASE_URL"),
  headers: { Authorization: `Basic ${Buffer.from(key).toString("base64")}` },
});
const project_id = environment("RAMET_PROJECT_ID");

const listed = await client.GET("/projects/{project_id}/services", { params: { path: { project_id } } });
const parent = listed.data?.[0];
if (parent === undefined) throw new Error(`no service is listed: ${JSON.stringify(listed.error)}`);

const forked = await client.POST("/projects/{project_id}/services/{service_id}/forkService", {
  params: { path: { project_id, service_id: parent.service_id } },
  body: { fork_strategy: "NOW", name: "from-typescript" },
});
if (forked.data === undefined) throw new Error(`the fork was refused: ${JSON.stringify(forked.error)}`);
// With dry_run the answer is a plan; its status tells, and the password stands in the answer to a fork alone.
if (!("service_id" in forked.data)) throw new Error("a plan was made instead of a fork");
const { service_id, initial_password, forked_from } = forked.data;
if (initial_password === undefined || forked_from?.service_id !== parent.service_id) throw new Error("this is no fork");

let status: string | undefined;
while (status !== "READY") {
  const found = await client.GET("/projects/{project_id}/services/{service_id}", {
    params: { path: { project_id, service_id } },
  });
  status = found.data?.status;
  if (status === undefined || status === "UNSTABLE") throw new Error(`the fork failed: ${JSON.stringify(found)}`);
}
const deleted = await client.DELETE("/projects/{project_id}/services/{service_id}", {
  params: { path: { project_id, service_id } },
});
console.log(JSON.stringify({ forked: service_id, deleted: deleted.response.status }));
