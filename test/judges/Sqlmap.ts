/**
 * Runs sqlmap against each kind of parameter that reaches SQL. To verify sqlmap itself, also scans a server that is
 * vulnerable on purpose.
 */
import { globSync, readFileSync } from "node:fs"
import { writeFile } from "node:fs/promises"
import { createServer } from "node:http"
import { join } from "node:path"
import { DatabaseSync } from "node:sqlite"
import { type Judge, type JudgedService, runProgram } from "./Judge.ts"

/**
 * Requests whose parameters reach SQL in different ways: as a symbol, as search words, as part of a name, as a sort
 * order, and as a number.
 */
const requests = [
  "/v1/news?ticker=GAP7&query=offering",
  "/v1/ownership?ticker=GAP7&owner_name=Tidewater",
  "/v1/screener?sort=price&min_price=1",
]
const fullRequests = [
  "/v1/ticker-changes?ticker=OSTK&cik=0001130713",
  "/v1/registrations?type=shelf&form_type=S-3&filed_at_from=2020-01-01&effective_status=true&file_no=333",
  "/v1/intraday-runners?ticker=GAP7&follow_lineage=true&date_from=2020-01-01&page=1&limit=2&format=json",
  "/v1/usage?endpoint=/v1/news&status_code=200&requested_at_from=2020-01-01",
  "/estimate?endpoint=/v1/news&query=offering",
]

/** Starts a server that interpolates its `name` parameter into SQL without escaping it. */
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

interface Scan {
  readonly urls: ReadonlyArray<string>
  /** The folder for sqlmap's results. */
  readonly folder: string
  readonly args: ReadonlyArray<string>
}

/** Runs sqlmap. Resolves to the result rows that report an injectable parameter, and to sqlmap's complete output. */
const scan = async ({ args, folder, urls }: Scan) => {
  const list = `${folder}.txt`
  await writeFile(list, urls.join("\n"))
  const { output } = await runProgram("sqlmap", [
    ...args,
    "--batch",
    "--disable-coloring",
    "--skip-waf",
    "--flush-session",
    `--output-dir=${folder}`,
    "-m",
    list,
  ])
  const [file] = globSync("results-*.csv", { cwd: folder })
  if (file === undefined) throw new Error(`sqlmap reported nothing:\n${output}`)
  const [, ...rows] = readFileSync(join(folder, file), "utf8").trim().split("\n")
  // The columns are URL, place, parameter and techniques.
  return { injectable: rows.filter((row) => row.split(",")[2] !== ""), output }
}

/** Scans the service. Also reports a finding if sqlmap did not test every parameter. */
const checkService = async ({ folder, isFull, key, origin }: JudgedService) => {
  const urls = [...requests, ...(isFull ? fullRequests : [])].map((request) => origin + request)
  // The short run omits the time-based technique (T), which reports false positives on a busy machine.
  const depth = isFull ? ["--level=3", "--risk=2"] : ["--level=2", "--technique=BEUSQ"]
  const args = ["--dbms=PostgreSQL", `--header=X-API-Key: ${key}`, ...depth]
  const { injectable, output } = await scan({ urls, folder: join(folder, "sqlmap-service"), args })
  const tested = new Set(output.match(/parameter '\w+' does not seem to be injectable/g))
  const parameters = new Set(urls.flatMap((url) => Array.from(new URL(url).searchParams.keys())))
  return injectable.length === 0 && tested.size < parameters.size
    ? [`sqlmap tested ${tested.size} of ${parameters.size} parameters:\n${output}`]
    : injectable.map((row) => `injectable: ${row}`)
}

/** Checks that sqlmap works: it must find the vulnerability of the injectable server. */
const checkTool = async ({ folder }: JudgedService) => {
  const { close, origin } = await startInjectableServer()
  try {
    const urls = [`${origin}/?name=Beyond`]
    const { injectable, output } = await scan({ urls, folder: join(folder, "sqlmap-known"), args: ["--technique=B"] })
    return injectable.length === 1 ? [] : [`sqlmap did not find a known hole:\n${output}`]
  } finally {
    close()
  }
}

/** Checks that no request parameter allows SQL injection. */
export const sqlmap: Judge = {
  name: "sqlmap",
  programs: ["sqlmap"],
  run: async (target) => [...await checkTool(target), ...await checkService(target)],
}
