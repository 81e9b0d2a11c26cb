/**
 * The upper bound for a Node server: `node:http` sends stored responses of Tickerline from memory. At its start, it
 * fetches each path in FILE from PORT_OF_ORIGIN. With HEADERS=all, it sends all headers of Tickerline.
 */
import { readFileSync } from "node:fs"
import { createServer } from "node:http"
import process from "node:process"
import { authorizationHeaders, mapConcurrently, sendRequest } from "../httpClient.ts"

interface Kept {
  readonly body: Buffer
  readonly headers: Array<string>
  readonly unmodified: Array<string>
}

const env = (name: string) => process.env[name] ?? ""
const all = env("HEADERS") === "all"
/** Headers that Node adds to every response. */
const ofConnection = /^(date|connection|keep-alive)$/i
const plain = /^(content-type|content-length)$/i
const ofBody = /^content-/i

const answers = new Map<string, Kept>()
await mapConcurrently(readFileSync(env("FILE"), "utf8").split("\n"), async (path) => {
  const { body, headers } = await sendRequest(
    Number(env("PORT_OF_ORIGIN")),
    path,
    authorizationHeaders(env("KEY")),
  )
  const sent = headers.filter(([name]) => all ? !ofConnection.test(name) : plain.test(name))
  answers.set(path, {
    body,
    headers: sent.flat(),
    unmodified: headers.filter(([name]) => all ? !ofConnection.test(name) && !ofBody.test(name) : /^etag$/i.test(name))
      .flat(),
  })
})

createServer(({ headers, url = "" }, response) => {
  const found = answers.get(url)
  if (found === undefined) response.writeHead(404).end()
  else if (headers["if-none-match"] !== undefined) {
    response.writeHead(304, found.unmodified).end()
  } else response.writeHead(200, found.headers).end(found.body)
}).listen(Number(process.env["PORT"]), "127.0.0.1")
