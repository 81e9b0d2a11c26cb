/** Creates archives like the SEC's `submissions.zip` and `companyfacts.zip` with Python's `zipfile` module. */
import { Effect, FileSystem } from "effect"
import { execFileSync } from "node:child_process"
import type { EdgarStub, ListedCompany } from "./EdgarStub.ts"

/** Reads `{ path, time, entries: [[name, text]], forceZip64, fillers }` from standard input. */
const script = `
import json, sys, zipfile
given = json.load(sys.stdin)
with zipfile.ZipFile(given["path"], "w", zipfile.ZIP_DEFLATED) as archive:
    def write(name, text):
        entry = zipfile.ZipInfo(name, tuple(given["time"]))
        entry.compress_type = zipfile.ZIP_DEFLATED
        with archive.open(entry, "w", force_zip64=given["forceZip64"]) as file:
            file.write(text.encode())
    for number in range(given["fillers"]):
        write("CIK9%09d.json" % number, "{}")
    for name, text in given["entries"]:
        write(name, text)
`

/** Options for creating an archive. */
export interface ZipOptions {
  /** The modification time of all entries. The default is the current time. */
  readonly time?: Date
  readonly forceZip64?: boolean
  /** The number of additional entries for companies that no test uses. */
  readonly fillers?: number
}

/** Writes a ZIP archive. */
export const writeZip = (
  path: string,
  entries: ReadonlyArray<readonly [name: string, text: string]>,
  { fillers = 0, forceZip64 = false, time = new Date() }: ZipOptions = {},
) => {
  const parts = [
    time.getUTCFullYear(),
    time.getUTCMonth() + 1,
    time.getUTCDate(),
    time.getUTCHours(),
    time.getUTCMinutes(),
    time.getUTCSeconds(),
  ]
  const input = JSON.stringify({ path, time: parts, entries, forceZip64, fillers })
  execFileSync("python3", ["-c", script], { input, stdio: ["pipe", "pipe", "inherit"] })
}

const isText = (entry: readonly [string, string | undefined]): entry is readonly [string, string] =>
  entry[1] !== undefined

/**
 * Writes the two archives that the SEC publishes every night, `submissions.zip` and `companyfacts.zip`, with the
 * documents that the stub serves for these companies. Returns the folder of the archives. Removes its own requests from
 * the stub's list, so that a test finds only those of the service.
 */
export const writeArchives = Effect.fnUntraced(
  function* (stub: EdgarStub, companies: ReadonlyArray<ListedCompany>, options: ZipOptions = {}) {
    const fs = yield* FileSystem.FileSystem
    const folder = yield* fs.makeTempDirectoryScoped({ prefix: "tickerline-archives-" })
    const read = Effect.fnUntraced(function* (path: string) {
      const response = yield* Effect.promise(() => fetch(stub.url + path))
      const text = yield* Effect.promise(() => response.text())
      return [path.slice(path.lastIndexOf("/") + 1), response.ok ? text : undefined] as const
    })
    const names = companies.map(({ cik }) => `CIK${cik}`)
    const lists = yield* Effect.forEach(
      names.flatMap((name) => [`${name}.json`, `${name}-submissions-001.json`]),
      (name) => read(`/submissions/${name}`),
    )
    const facts = yield* Effect.forEach(names, (name) => read(`/api/xbrl/companyfacts/${name}.json`))
    writeZip(`${folder}/submissions.zip`, lists.filter(isText), options)
    writeZip(`${folder}/companyfacts.zip`, facts.filter(isText), options)
    stub.requests.length = 0
    return folder
  },
)
