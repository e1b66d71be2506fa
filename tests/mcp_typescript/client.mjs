// Lists the tools at an address and calls one: node client.mjs URL TOKEN TOOL ARGUMENTS, as JSON.
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";

const [url, token, tool, given] = process.argv.slice(2);
const client = new Client({ name: "omnigraph-tests", version: "1.0.0" });
const headers = { Authorization: `Bearer ${token}` };
await client.connect(new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers } }));
const { tools } = await client.listTools();
const { resources } = await client.listResources();
const result = await client.callTool({ name: tool, arguments: JSON.parse(given) });
let unknown = null;
try {
  await client.callTool({ name: "no_such_tool", arguments: {} });
} catch (error) {
  unknown = error.code;
}
await client.close();
console.log(JSON.stringify({ tools: tools.map((each) => each.name), resources: resources.length, result, unknown }));
