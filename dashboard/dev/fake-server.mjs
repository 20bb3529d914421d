// Fake API server with a small simulation, for work on the dashboard without Python.
//   node dev/fake-server.mjs [--port 8000] [--static dist] [--warm 300] [--rate 4.5] [--state running|empty] [--hz 2]
import { createReadStream, existsSync } from "node:fs";
import { createServer } from "node:http";
import { extname, join, resolve } from "node:path";
import { WebSocketServer } from "ws";
import { answer } from "./restResponses.mjs";
import { Simulation } from "./simulation.mjs";

const option = (name, fallback) => {
  const at = process.argv.indexOf(`--${name}`);
  return at > 0 ? process.argv[at + 1] : fallback;
};
const port = Number(option("port", 8000));
const folder = option("static", null);
const hz = Number(option("hz", 2));
const simulation = new Simulation({
  rate: Number(option("rate", 4.5)),
  empty: option("state", "running") === "empty",
});
simulation.advance(Number(option("warm", 280)), 0.5);

const TYPES = {
  ".html": "text/html",
  ".js": "text/javascript",
  ".css": "text/css",
  ".svg": "image/svg+xml",
  ".woff2": "font/woff2",
};

function send(response, status, body) {
  response.writeHead(status, { "content-type": "application/json" });
  response.end(JSON.stringify(body));
}

function file(response, path) {
  const root = resolve(folder);
  let name = join(root, path);
  if (!name.startsWith(root) || !existsSync(name) || path === "/") name = join(root, "index.html");
  response.writeHead(200, { "content-type": TYPES[extname(name)] ?? "application/octet-stream" });
  createReadStream(name).pipe(response);
}

const server = createServer((request, response) => {
  const url = new URL(request.url, "http://localhost");
  if (!url.pathname.startsWith("/api"))
    return folder ? file(response, url.pathname) : send(response, 200, { status: "online" });
  let text = "";
  request.on("data", (chunk) => (text += chunk));
  request.on("end", () => {
    const body = answer(simulation, request.method, url, text ? JSON.parse(text) : {});
    if (body === undefined) {
      send(response, 404, {
        error: { id: "fake", code: "not_found", message: `no ${url.pathname}`, fields: [], hint: null },
      });
    } else send(response, 200, body);
  });
});
const sockets = new WebSocketServer({ server, path: "/ws" });
const broadcast = (events) => {
  for (const client of sockets.clients) for (const event of events) client.send(JSON.stringify(event));
};
simulation.onNote = (event) => broadcast([event]);
sockets.on("connection", (socket) => socket.send(JSON.stringify(simulation.hello())));
setInterval(() => broadcast(simulation.advance(simulation.speed / hz, simulation.speed / hz)), 1000 / hz);
server.listen(port, "127.0.0.1", () => console.log(`fake API on http://127.0.0.1:${port}`));
