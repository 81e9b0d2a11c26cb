/** sqlmap on parameters of each kind that reaches SQL, and on a server that is injectable, which it must report. */
import { globSync, readFileSync } from "node:fs"
import { writeFile } from "node:fs/promises"
import { createServer } from "node:http"
import { join } from "node:path"
import { DatabaseSync } from "node:sqlite"
import { type Judge, runProgram } from "./Judge.ts"

/** Requests with a parameter of each kind: symbols, words, part of a text, a number, a date, an enumeration, a boolean. */
const requests = [
  "/v1/news?ticker=GAP7&query=offering",
  "/v1/ownership?ticker=GAP7&owner_name=Tidewater",
  "/v1/screener?sort=price&min_price=1&sector=Energy",
]
const fullRequests = [
  "/v1/ticker-changes?ticker=OSTK&cik=0001130713",
  "/v1/registrations?type=shelf&form_type=S-3&filed_at_from=2020-01-01&effective_status=true&file_no=333",
  "/v1/intraday-runners?ticker=GAP7&follow_lineage=true&date_from=2020-01-01&page=1&limit=2&format=json",
  "/v1/usage?endpoint=/v1/news&status_code=200&requested_at_from=2020-01-01",
  "/estimate?endpoint=/v1/news&query=offering",
]

/** Starts a server that puts its parameter `name` into SQL. */
const startInjectableServer = () =>
  new Promise<{ readonly origin: string; readonly close: () => void }>((resolve) => {
    const database = new DatabaseSync(":memory:")
    database.exec("create table companies (name text); insert into companies values ('Overstock'), ('Beyond')")
    const server = createServer(({ url }, response) => {
      const name = new URL(url ?? "/", "http://localhost").searchParams.get("name") ?? ""
      try {
        response.end(JSON.stringify(database.prepare(`select name from companies where name = '${name}'`).all()))
      } catch {
        response.writeHead(500).end()
      }
    }).listen(0, "127.0.0.1", () => {
      const address = server.address()
      const port = typeof address === "object" && address !== null ? address.port : 0
      resolve({
        origin: `http://127.0.0.1:${port}`,
        close: () => {
          server.close()
          server.closeAllConnections()
        },
      })
    })
  })

export const sqlmap: Judge = {
  name: "sqlmap",
  programs: ["sqlmap"],
  run: async ({ folder, isFull, key, origin }) => {
    const injectable = await startInjectableServer()
    try {
      const urls = [...requests, ...(isFull ? fullRequests : [])].map((request) => origin + request)
      const targets = join(folder, "sqlmap.txt")
      await writeFile(targets, [`${injectable.origin}/?name=Beyond`, ...urls].join("\n"))
      const output = join(folder, "sqlmap")
      // Without T (time-based), because a busy machine makes any parameter slow.
      const depth = isFull ? ["--level=3", "--risk=2"] : ["--level=2", "--technique=BEUSQ"]
      const result = await runProgram("sqlmap", [
        ...["-m", targets, "--batch", "--disable-coloring", "--skip-waf", "--answers=redirect=N", "--flush-session"],
        ...[`--header=X-API-Key: ${key}`, `--output-dir=${output}`, ...depth],
      ])
      const [file] = globSync("results-*.csv", { cwd: output })
      if (file === undefined) throw new Error(`sqlmap reported nothing:\n${result.output}`)
      const [, ...rows] = readFileSync(join(output, file), "utf8").trim().split("\n")
      const isInjectable = (row: string) => row.split(",")[2] !== ""
      const [found, expected] = [rows.filter(isInjectable), rows.filter((row) => row.startsWith(injectable.origin))]
      const tested = result.output.match(/parameter '\w+' does not seem to be injectable/g) ?? []
      const parameters = urls.flatMap((url) => Array.from(new URL(url).searchParams.keys()))
      return [
        ...found.filter((row) => !expected.includes(row)).map((row) => `injectable: ${row}`),
        ...(found.some((row) => expected.includes(row)) ? [] : [`sqlmap did not find a known hole:\n${result.output}`]),
        ...(tested.length === parameters.length
          ? []
          : [`sqlmap tested ${tested.length} of ${parameters.length} parameters:\n${result.output}`]),
      ]
    } finally {
      injectable.close()
    }
  },
}
