/**
 * Smoke test, run as `node smoke.ts node` or `node smoke.ts deno`: starts the service with a new home folder, sends
 * requests and stops the service. Prints one line per check, and exits with 1 if a check fails.
 */
import { execFileSync, spawn } from "node:child_process"
import { mkdtemp, rm } from "node:fs/promises"
import { createServer } from "node:net"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { fileURLToPath } from "node:url"

const root = fileURLToPath(new URL("../", import.meta.url))
const [runtime = "node"] = process.argv.slice(2)
/** Path of the Deno program. The npm package's command is a wrapper that does not forward signals. */
const deno = () => execFileSync("deno", ["eval", "console.log(Deno.execPath())"], { encoding: "utf8" }).trim()

const [program, ...args] = runtime === "deno" ? [deno(), "run", "--allow-all", "src/main.ts"] : ["node", "src/main.ts"]

const freePort = () =>
  new Promise<number>((resolve, reject) => {
    const server = createServer().on("error", reject).listen(0, "127.0.0.1", () => {
      const address = server.address()
      const port = typeof address === "object" && address !== null ? address.port : 0
      server.close(() => resolve(port))
    })
  })

const home = await mkdtemp(join(tmpdir(), "tickerline-smoke-"))
const port = await freePort()
const service = spawn(program ?? "node", [...args, "serve"], {
  cwd: root,
  env: { ...process.env, PORT: String(port), TICKERLINE_HOME: home },
  stdio: ["ignore", "pipe", "inherit"],
})
const ended = new Promise<number | null>((resolve) => service.on("exit", resolve))

/** The request that the service prints as an example. */
const offered = new Promise<{ readonly key: string; readonly url: string }>((resolve, reject) => {
  let output = ""
  service.stdout.on("data", (chunk: Buffer) => {
    output += chunk
    const [, key, url] = /Bearer (\S+)" "(\S+)"/.exec(output) ?? []
    if (key !== undefined && url !== undefined) resolve({ key, url })
  })
  void ended.then((code) => reject(new Error(`The service ended with ${code} before it was ready.`)))
})

/** Reads a value inside JSON by keys and indexes. */
const at = (body: unknown, ...path: ReadonlyArray<string | number>): unknown =>
  path.reduce<unknown>(
    (value, key) => typeof value === "object" && value !== null ? Reflect.get(value, key) : undefined,
    body,
  )

const expect = (what: string, found: unknown, wanted: unknown) => {
  const same = JSON.stringify(found) === JSON.stringify(wanted)
  console.log(`${same ? "ok    " : "WRONG "} ${what}: ${JSON.stringify(found)}`)
  if (!same) throw new Error(`${what}: wanted ${JSON.stringify(wanted)}`)
}

try {
  const { key, url } = await offered
  const base = new URL(url).origin
  const ask = async (path: string) => {
    const response = await fetch(base + path, { headers: { authorization: `Bearer ${key}` } })
    const json = response.headers.get("content-type")?.startsWith("application/json") === true
    return {
      status: response.status,
      headers: response.headers,
      body: json ? await response.json() : await response.text(),
    }
  }
  expect("the offered request", at((await ask(url.slice(base.length))).body, "results", 0, "current_ticker"), "NXH")
  const chain = await ask("/v1/ticker-changes?ticker=ostk")
  expect("a chain", at(chain.body, "results", 0, "history", 1, "new_ticker"), "BBBY")
  const meta = await ask("/v1/ticker-changes?ticker=META")
  expect("META", [meta.status, at(meta.body, "error", "details", "reason")], [409, "multiple_cik_lineages"])
  const runners = await ask("/v1/intraday-runners?limit=2&date=2025-06-09")
  expect("runners", [at(runners.body, "count"), at(runners.body, "results", 0, "date")], [2, "2025-06-09"])
  expect("a time", String(at(runners.body, "results", 0, "last_updated")).slice(-6), "-05:00")
  expect(
    "a deprecated endpoint",
    (await ask("/v1/historical-tickers?ticker=NXH")).headers.get("deprecation"),
    "@1793491200",
  )
  const wrong = await ask("/v1/intraday-runners?tickr=NXH")
  expect("a misspelt filter", [wrong.status, at(wrong.body, "error", "details", "fields", 0, "field")], [422, "tickr"])
  expect("documentation", (await ask("/v1/docs")).headers.get("content-type"), "text/html; charset=utf-8")
  expect("the reference", (await ask("/v1/docs/reference")).status, 200)
  expect("readiness", (await ask("/health/ready")).body, {
    status: "ok",
    parts: { service: "ok", database: "ok", usage: "ok", limits: "ok", cache: "ok" },
  })
  service.kill("SIGTERM")
  expect("an orderly stop", await ended, 0)
} finally {
  if (service.exitCode === null && service.signalCode === null) {
    service.kill("SIGTERM")
    await ended
  }
  await rm(home, { recursive: true, force: true })
}
