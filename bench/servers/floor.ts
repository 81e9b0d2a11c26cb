/**
 * Shows the highest rate that a Node server can reach: `node:http` sends stored Tickerline responses from memory. If
 * HEADERS=all is set, the responses include all headers of the stored responses.
 */
import { createServer } from "node:http"
import process from "node:process"
import { fetchStoredResponses } from "./storedResponses.ts"

const all = process.env["HEADERS"] === "all"
const plain = /^(content-type|content-length)$/i
const ofBody = /^content-/i

const responses = new Map(
  Array.from(await fetchStoredResponses(), ([path, { body, headers }]) => [path, {
    body,
    headers: headers.filter(([name]) => all || plain.test(name)).flat(),
    unmodified: headers.filter(([name]) => all ? !ofBody.test(name) : /^etag$/i.test(name)).flat(),
  }]),
)

createServer(({ headers, url = "" }, response) => {
  const found = responses.get(url)
  if (found === undefined) response.writeHead(404).end()
  else if (headers["if-none-match"] !== undefined) {
    response.writeHead(304, found.unmodified).end()
  } else response.writeHead(200, found.headers).end(found.body)
}).listen(Number(process.env["PORT"]), "127.0.0.1")
