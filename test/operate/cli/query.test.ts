/** Tests `query` against a running service that has the sample data, and against stubs. */
import { assert, describe, it, layer } from "@effect/vitest"
import { NodeServices } from "@effect/platform-node"
import { Effect, FileSystem, Option, Sink } from "effect"
import { execFileSync } from "node:child_process"
import { createServer } from "node:http"
import {
  extractResponseRows,
  formatSymbolHistory,
  makeQueryErrorFromResponse,
  parseJsonWithExactNumbers,
} from "../../../src/operate/cli/query/QueryResponse.ts"
import { containsApiKey } from "../../../src/operate/cli/CommandParts.ts"
import { parseQueryCommandTarget } from "../../../src/operate/cli/query/QueryRequest.ts"
import { chooseFreePort } from "../../../src/postgres/embedded/EmbeddedCluster.ts"
import { hasOpenssl, startSelfSignedServer } from "../../support/Certificates.ts"
import { runCommandInProcess } from "../../support/InProcessCommands.ts"
import { readParquet } from "../../support/ParquetFiles.ts"
import type { Environment } from "../../support/Processes.ts"
import { gapsOfGap7, sampleCompanies } from "../../support/SampleMarket.ts"
import * as Service from "../../support/Service.ts"

const noHome = { TICKERLINE_HOME: "/nonexistent" }

/** Runs `query` with the API key of the basic tier in the environment. */
const query = Effect.fnUntraced(
  function* (
    args: ReadonlyArray<string>,
    environment: Environment = {},
    stdio: Parameters<typeof runCommandInProcess>[2] = {},
  ) {
    const { basic } = yield* Service.TestKeys
    const port = yield* Service.servicePort
    return yield* runCommandInProcess(
      ["query", ...args],
      { ...noHome, PORT: String(port), TICKERLINE_KEY: basic, ...environment },
      stdio,
    )
  },
)

/**
 * Starts a stub that responds with a fixed body. `authorizations` collects the `Authorization` header of each request.
 */
const startStub = (body: string, headers: Readonly<Record<string, string>> = { "content-type": "application/json" }) =>
  Effect.acquireRelease(
    Effect.callback<
      { readonly url: string; readonly authorizations: Array<string | undefined>; readonly close: () => void }
    >(
      (resume) => {
        const authorizations: Array<string | undefined> = []
        const server = createServer((request, response) => {
          authorizations.push(request.headers.authorization)
          response.writeHead(200, headers).end(body)
        })
        server.listen(0, "127.0.0.1", () => {
          const address = server.address()
          const port = typeof address === "object" && address !== null ? address.port : 0
          resume(Effect.succeed({ url: `http://127.0.0.1:${port}`, authorizations, close: () => server.close() }))
        })
      },
    ),
    ({ close }) => Effect.sync(close),
  )

layer(Service.sampleServiceLayer, { excludeTestServices: true })("query", (it) => {
  it.effect("prints rows as a table on standard output and their cost on standard error (operations/command-line)", () =>
    Effect.gen(function* () {
      const { code, err, out } = yield* query(["/v1/ticker-changes?ticker=OSTK"], { LANG: "C.UTF-8" })
      assert.strictEqual(code, 0, err)
      const [names = "", row = "", ...more] = out.trimEnd().split("\n")
      assert.match(names, /^query_ticker {2}has_changes {2}current_ticker {2}history$/)
      assert.match(row, /^OSTK +true +NXH +OSTK → BYON \(2023-11-06\) → BBBY \(2025-08-29\) → NXH \(2026-08-17\)$/)
      assert.deepStrictEqual(more, [])
      assert.match(err, /^1 row, 0\.0000\d\d USD, \d+ of \d+ requests left this minute\n$/)
    }))

  it.effect("accepts short names, --param and --columns, and prints CSV with every digit (operations/command-line)", () =>
    Effect.gen(function* () {
      const args = ["screener", "-p", "limit=20", "--columns", "ticker,market_cap", "--all", "--csv"]
      const { code, err, out } = yield* query(args)
      assert.strictEqual(code, 0, err)
      const [header, ...csvRows] = out.trimEnd().split("\n")
      assert.strictEqual(csvRows.length, sampleCompanies)
      assert.strictEqual(header, "ticker,market_cap")
      for (const line of csvRows) assert.match(line, /^[A-Z0-9.^-]+,\d*(\.\d+)?$/)
      assert.isTrue(err.startsWith(`${sampleCompanies} rows, `), err)
      const max = 25
      const firstRows = ["screener", "-p", "limit=20", "--columns", "ticker", "--all", "--max", String(max), "--csv"]
      const bound = yield* query(firstRows)
      assert.strictEqual(bound.out.trimEnd().split("\n").length, 1 + max, "a header and --max rows")
      assert.isTrue(bound.err.startsWith(`${max} rows (more with a higher --max), `), bound.err)
      const chain = yield* query(["ticker-changes", "-p", "ticker=OSTK", "--csv"])
      assert.match(chain.out, /\nOSTK,true,NXH,"\[\{""old_ticker"":""OSTK"",""new_ticker"":""BYON"",/)
    }))

  it.effect("downloads a complete list as a file, and prints no binary data on a terminal (operations/command-line)", () =>
    Effect.gen(function* () {
      const fs = yield* FileSystem.FileSystem
      const folder = yield* fs.makeTempDirectoryScoped({ prefix: "tickerline-query-" })
      const file = `${folder}/gaps.parquet`
      const saved = yield* query(["gap-stats?ticker=GAP7", "--format", "parquet", "-o", file])
      assert.strictEqual(saved.code, 0, saved.err)
      assert.deepStrictEqual([saved.out, saved.err], ["", `${gapsOfGap7} rows, written to ${file}\n`])
      const { metadata, rows } = yield* Effect.flatMap(
        fs.readFile(file),
        (bytes) => Effect.promise(() => readParquet(bytes)),
      )
      assert.strictEqual(rows.length, gapsOfGap7)
      assert.strictEqual(metadata["tickerline.query"], "ticker=GAP7&limit=all&format=parquet")

      const chunks: Array<Uint8Array> = []
      const stdout = () =>
        Sink.forEach((chunk: string | Uint8Array) => Effect.sync(() => void chunks.push(Buffer.from(chunk))))
      const piped = yield* query(["gap-stats", "-p", "ticker=GAP7", "--format", "csv"], {}, { stdout })
      assert.strictEqual(piped.err, `${gapsOfGap7} rows, written to standard output\n`)
      assert.strictEqual(Buffer.concat(chunks).toString().trimEnd().split("\r\n").length, 1 + rows.length)

      const onTerminal = { stdoutIsTerminal: Effect.succeed(true) }
      const refused = yield* query(["gap-stats", "--format", "parquet"], {}, onTerminal)
      assert.notStrictEqual(refused.code, 0)
      assert.include(refused.err, "Write it to a file with -o FILE")
      for (
        const [args, message] of [
          [["news", "-o", file], "--output needs --format"],
          [["news", "--format", "csv", "--all"], "--format cannot be combined"],
          [["news?limit=5", "--format", "parquet", "-o", `${folder}/page`], "can be parquet only with limit=all"],
          [["no-list", "--format", "csv", "-o", `${folder}/none`], "not_found"],
        ] as const
      ) {
        const { code, err } = yield* query(args)
        assert.notStrictEqual(code, 0)
        assert.include(err, message)
      }
      const half = yield* startStub("PAR1 half", { "content-type": "application/vnd.apache.parquet" })
      const incomplete = yield* query(["news", "--url", half.url, "--format", "parquet", "-o", `${folder}/half`])
      assert.include(incomplete.err, "the file is not complete")
      assert.deepStrictEqual(yield* fs.readDirectory(folder), ["gaps.parquet"])
    }).pipe(Effect.scoped, Effect.provide(NodeServices.layer)))

  it.effect("sends no request if it cannot write the file, and never replaces a pipe (operations/command-line)", () =>
    Effect.gen(function* () {
      const fs = yield* FileSystem.FileSystem
      const folder = yield* fs.makeTempDirectoryScoped({ prefix: "tickerline-query-" })
      const stub = yield* startStub("a\r\n1\r\n", { "content-type": "text/csv" })
      const download = (file: string) => query(["news", "--url", stub.url, "--format", "csv", "-o", file])
      for (
        const [file, message] of [
          [`${folder}/missing/news.csv`, "There is no folder for"],
          [folder, "is a folder. Add the name of a file."],
          ["/dev/null/news.csv", "/dev/null/news.csv cannot be written: not a directory. Choose another file."],
        ] as const
      ) {
        const { code, err } = yield* download(file)
        assert.strictEqual(code, 1)
        assert.include(err, message)
      }
      assert.lengthOf(stub.authorizations, 0)
      assert.deepStrictEqual(yield* fs.readDirectory(folder), [])

      const full = yield* download("/dev/full")
      const advice = "Free some space, or choose another file."
      assert.strictEqual(full.err, `tickerline: /dev/full cannot be written: no space left on device. ${advice}\n`)
      assert.strictEqual(full.code, 1)

      const pipe = `${folder}/pipe`
      execFileSync("mkfifo", [pipe])
      const [saved, text] = yield* Effect.all([download(pipe), fs.readFileString(pipe)], { concurrency: 2 })
      assert.strictEqual(saved.code, 0, saved.err)
      assert.strictEqual(text, "a\r\n1\r\n")
      assert.strictEqual((yield* fs.stat(pipe)).type, "FIFO")
      assert.deepStrictEqual(yield* fs.readDirectory(folder), ["pipe"])
    }).pipe(Effect.scoped, Effect.provide(NodeServices.layer)))

  it.effect("prints the sources of rows (D8)", () =>
    Effect.gen(function* () {
      const args = ["float-outstanding", "-p", "ticker=GPW8", "-p", "provenance=true", "--columns", "ticker,source"]
      const { code, err, out } = yield* query([...args, "--csv"])
      assert.strictEqual(code, 0, err)
      assert.match(out, /^ticker,source\nGPW8,"\[""https:\/\/example\.com\/filings\/.*#dei:EntityCommonStock.*""\]"\n$/)
    }))

  it.effect("prints the candidates of an ambiguous lineage (§4.1)", () =>
    Effect.gen(function* () {
      const { code, err, out } = yield* query(["ticker-changes", "-p", "ticker=META"])
      assert.strictEqual(code, 1)
      assert.strictEqual(out, "")
      assert.match(err, /^tickerline: 409 ambiguous_ticker_lineage: The history of META/)
      assert.match(err, /^ {2}META -> METV \(2022-01-31\) {3}Roundhill.*CIK 0001683471$/m)
      assert.match(err, /^ {2}FB -> META \(2022-06-09\) {3}Meta Platforms.*CIK 0001326801$/m)
      assert.match(err, /^Choose an issuer with its CIK, such as -p cik=0001683471$/m)
      const args = ["-p", "ticker=GOOG,META", "-p", "follow_lineage=true"]
      const list = yield* query(["gap-stats", ...args])
      assert.match(list.err, /^ {2}FB -> META \(2022-06-09\) {3}Meta Platforms.*CIK 0001326801$/m)
      assert.match(list.err, /^Choose an issuer with its CIK, such as -p cik=META:0001683471$/m)
      const chosen = yield* query([
        "gap-stats",
        "-p",
        "ticker=GAP7,META",
        ...args.slice(2),
        "-p",
        "cik=META:0001683471",
      ])
      assert.strictEqual(chosen.code, 0, chosen.err)
    }))

  it.effect("prints a line for each invalid parameter, suggests paths and columns, and says where it looks for the key (§7.2)", () =>
    Effect.gen(function* () {
      const { err: fields } = yield* query(["/v1/news?tikcer=A&limt=5"])
      assert.match(fields, /^ {2}tikcer: .*Did you mean ticker\?$/m)
      assert.match(fields, /^ {2}limt: .*Did you mean limit\?$/m)
      const { err: misspelt } = yield* query(["nwes"])
      assert.match(misspelt, /404 not_found.*Did you mean \/v1\/news\?/)
      assert.lengthOf(misspelt.match(/Did you mean/g) ?? [], 1)
      const column = yield* query(["news", "--columns", "titel"])
      assert.strictEqual(column.code, 2)
      assert.match(column.err, /There is no column titel\. Did you mean title\?/)
      const { code, err } = yield* query(["news"], { TICKERLINE_KEY: "tl_live_wrong" })
      assert.strictEqual(code, 1)
      assert.match(err, /401 .*\n.*--key-file.*TICKERLINE_KEY.*demo key/)
      assert.notInclude(err, "tl_live_wrong")
    }))

  it.effect("refuses keys in arguments, reads them from a file, and sends the demo key to no other service (operations/command-line)", () =>
    Effect.gen(function* () {
      const fs = yield* FileSystem.FileSystem
      const { pro } = yield* Service.TestKeys
      const home = yield* fs.makeTempDirectoryScoped({ prefix: "tickerline-query-" })
      const argued = yield* query([`/v1/news?key=${pro}`])
      assert.strictEqual(argued.code, 2)
      assert.match(argued.err, /Do not put an API key into an argument/)
      assert.notInclude(argued.err, pro)
      yield* fs.writeFileString(`${home}/demo-key`, `${pro}\n`)
      const own = { TICKERLINE_HOME: home, TICKERLINE_KEY: "" }
      assert.strictEqual((yield* query(["news", "-p", "limit=1"], own)).code, 0)
      const other = yield* startStub(`{"count":0,"results":[]}`)
      assert.strictEqual((yield* query(["news", "--url", other.url], own)).code, 0)
      assert.strictEqual((yield* query([`${other.url}/v1/news`], own)).code, 0)
      assert.deepStrictEqual(other.authorizations, [undefined, undefined])
      assert.strictEqual((yield* query(["news", "--url", other.url, "--key-file", `${home}/demo-key`], own)).code, 0)
      assert.strictEqual(other.authorizations.at(-1), `Bearer ${pro}`)
      yield* fs.writeFileString(`${home}/demo-key`, "two words\n")
      const malformed = yield* query(["news"], own)
      assert.deepStrictEqual([malformed.code, malformed.out], [1, ""])
      assert.include(malformed.err, `The key file ${home}/demo-key contains more than one word. Put only the key into`)
      assert.notInclude(malformed.err, "two words")
    }))

  it.effect("names a key file that it cannot use, and reads a key from a pipe (operations/command-line)", () =>
    Effect.gen(function* () {
      const fs = yield* FileSystem.FileSystem
      const { pro } = yield* Service.TestKeys
      const folder = yield* fs.makeTempDirectoryScoped({ prefix: "tickerline-query-" })
      const empty = `${folder}/empty`
      yield* fs.writeFileString(empty, "\n")
      const advice = "Put only the key into the file. To create a key, run: tickerline keys create\n"
      for (
        const [file, message] of [
          [empty, `The key file ${empty} is empty. ${advice}`],
          [`${folder}/none`, `--key-file: There is no file ${folder}/none. ${advice}`],
          [folder, `--key-file: ${folder} cannot be read: is a directory. ${advice}`],
        ] as const
      ) {
        const { code, err } = yield* query(["news", "--key-file", file])
        assert.deepStrictEqual([code, err], [1, `tickerline: ${message}`])
      }
      const below = yield* query(["news", "--key-file", `${empty}/key`])
      assert.strictEqual(below.code, 2)
      assert.include(below.err, `flag --key-file: "${empty}/key". ${empty}/key cannot be read: not a directory.`)

      const pipe = `${folder}/pipe`
      execFileSync("mkfifo", [pipe])
      const [called] = yield* Effect.all(
        [query(["news", "-p", "limit=1", "--key-file", pipe]), fs.writeFileString(pipe, `${pro}\n`)],
        { concurrency: 2 },
      )
      assert.strictEqual(called.code, 0, called.err)
    }).pipe(Effect.scoped, Effect.provide(NodeServices.layer)))

  it.effect("sends no request for a response that never ends, and names the command for it (operations/command-line)", () =>
    Effect.gen(function* () {
      const stub = yield* startStub("")
      for (const path of ["/v1/changes/stream", "changes/stream", "/v1/changes/stream/"]) {
        const { code, err } = yield* query([path, "--url", stub.url])
        assert.strictEqual(code, 2)
        assert.include(err, "never ends. Use: tickerline changes --follow")
      }
      assert.lengthOf(stub.authorizations, 0)
    }))

  it.effect("explains how to start the service if none is running (operations/command-line)", () =>
    Effect.gen(function* () {
      const port = yield* chooseFreePort
      const { code, err, out } = yield* query(["news"], { PORT: String(port) })
      assert.strictEqual(code, 1)
      assert.strictEqual(out, "")
      assert.match(
        err,
        /^tickerline: Nothing answers at http:\/\/127\.0\.0\.1:\d+\. Start the service \(npm start\).*\n$/,
      )
    }))

  it.effect.skipIf(!hasOpenssl)(
    "names the certificate that it does not trust, and the setting for it (operations/command-line)",
    () =>
      Effect.gen(function* () {
        const url = yield* startSelfSignedServer
        const { code, err, out } = yield* query(["news", "--url", url])
        assert.deepStrictEqual([code, out], [1, ""])
        assert.strictEqual(
          err,
          `tickerline: There is no connection to ${url}: its certificate is not trusted (DEPTH_ZERO_SELF_SIGNED_CERT). ` +
            "If a proxy or an authority of your own has signed it, set NODE_EXTRA_CA_CERTS to the authority's file.\n",
        )
      }).pipe(Effect.provide(NodeServices.layer)),
  )

  it.effect("prints the unchanged response with --json, and every digit of its numbers in a table (D16)", () =>
    Effect.gen(function* () {
      const body = `{"results":[{"price":99999999999999.9999,"name":"a"},{"price":0.10,"name":null}]}`
      const { url } = yield* startStub(body)
      assert.strictEqual((yield* query(["x", "--url", url, "--json"])).out, `${body}\n`)
      assert.include((yield* query(["x", "--url", url])).out, "99999999999999.9999  a\n               0.10\n")
      const plain = yield* startStub("no data", { "content-type": "text/plain" })
      assert.strictEqual((yield* query(["x", "--url", plain.url])).out, "no data\n")
    }))

  it.effect("refuses a page for browsers, and says how to find the endpoints (operations/command-line)", () =>
    Effect.gen(function* () {
      const { url } = yield* startStub("<p>no data</p>", { "content-type": "text/html; charset=utf-8" })
      const { code, err, out } = yield* query(["/", "--url", url])
      assert.deepStrictEqual([code, out], [1, ""])
      assert.match(err, /is a page for browsers, not an endpoint\. .*tickerline query endpoints\n$/)
    }))

  it.effect("waits at the rate limit until one request is allowed, not until the bucket is full (D18)", () =>
    Effect.gen(function* () {
      const { authorizations, url } = yield* startStub(`{"results":[{"a":1}]}`, {
        "content-type": "application/json",
        "link": `</x?page=2>; rel="next"`,
        "x-ratelimit-limit": "60",
        "x-ratelimit-remaining": "0",
        "x-ratelimit-reset": "60",
      })
      const { code, err } = yield* query(["x", "--url", url, "--all", "--max", "2"])
      assert.strictEqual(code, 0, err)
      assert.strictEqual(authorizations.length, 2)
      assert.include(err, "The rate limit is reached. The next page follows in 1 s.")
    }))

  it.effect("names all symbols of a followed company, and counts the omitted rows (D35)", () =>
    Effect.gen(function* () {
      const { url } = yield* startStub(`{"results":[{"a":1}]}`, {
        "content-type": "application/json",
        "x-lineage": "AAPL, OSTK..2023-11-06, BYON;outside=100+",
      })
      const { err } = yield* query(["x", "--url", url])
      assert.match(err, /^Lineage: OSTK (→|->) \(2023-11-06\) BYON, 100 or more rows of other companies omitted$/m)
      assert.notInclude(err, "AAPL")
    }))

  it.effect("names the event types that it omits because the key may not see them (D3)", () =>
    Effect.gen(function* () {
      const endpoints = ["/v1/timeline", "/v1/gap-stats"]
      const TICKERLINE_KEY = yield* Service.ensureAccountWithKey("test query", "basic", { endpoints })
      const args = ["timeline", "-p", "ticker=GAP7", "-p", "types=gap,dilution,split", "--csv"]
      const { code, err, out } = yield* query(args, { TICKERLINE_KEY })
      assert.strictEqual(code, 0, err)
      assert.match(err, /^Omitted, because your key may not see them: dilution, split$/m)
      assert.notInclude(out, "dilution")
      const { err: complete } = yield* query(["timeline", "-p", "ticker=GAP7", "-p", "types=gap"])
      assert.notInclude(complete, "Omitted")
    }))

  it.effect("escapes control sequences in data and errors (operations/command-line)", () =>
    Effect.gen(function* () {
      const { url } = yield* startStub(JSON.stringify({ results: [{ a: "x\u001b]0;owned\u0007\u009b2J" }] }))
      assert.include((yield* query(["x", "--url", url])).out, "x\\u001b]0;owned\\u0007\\u009b2J")
      const withControlSequence = yield* query(["/v1/news?\u001b[2J=1"])
      assert.notInclude(withControlSequence.err, "\u001b")
    }))
})

describe("The query command", () => {
  const paths = ["/v1/news", "/endpoints"]

  it("treats news, v1/news, /v1/news and the complete URL alike (operations/command-line)", () => {
    const expected = { origin: undefined, path: "/v1/news", search: "?ticker=A" }
    for (const typed of ["news?ticker=A", "v1/news?ticker=A", "/v1/news?ticker=A"]) {
      assert.deepStrictEqual(parseQueryCommandTarget(typed, {}, paths), expected)
    }
    assert.deepStrictEqual(parseQueryCommandTarget("https://api.example.com/v1/news?ticker=A", {}, paths), {
      ...expected,
      origin: "https://api.example.com",
    })
    assert.deepStrictEqual(parseQueryCommandTarget("endpoints", {}, paths), {
      origin: undefined,
      path: "/endpoints",
      search: "",
    })
    assert.strictEqual(parseQueryCommandTarget("news?a=1", { b: "x&y=?" }, paths).search, "?a=1&b=x%26y%3D%3F")
  })

  it("says how many candidates of an ambiguous lineage are not listed (§4.1)", () => {
    const describeRefusal = (candidate_count?: number) => {
      const candidates = [{ cik: "1", company_name: "A", history: [], current_ticker: "HUB" }]
      const error = {
        code: "ambiguous_ticker_lineage",
        message: "Ambiguous.",
        details: { candidates, candidate_count },
      }
      const text = JSON.stringify({ error, request_id: "1" })
      return makeQueryErrorFromResponse({ status: 409, text, retryAfterSeconds: null }, "->").message
    }
    assert.strictEqual(
      describeRefusal(31),
      "409 ambiguous_ticker_lineage: Ambiguous.\n  HUB   A, CIK 1\n  There are 30 more issuers.",
    )
    for (const count of [1, undefined]) assert.notInclude(describeRefusal(count), "more issuers")
  })

  it("formats symbol changes as a chain, and recognizes rows and keys (§4.1)", () => {
    assert.strictEqual(formatSymbolHistory([{ old_ticker: "A", new_ticker: "B" }], "→"), "A → B")
    assert.isUndefined(formatSymbolHistory([], "→"))
    assert.isUndefined(formatSymbolHistory([{ old_ticker: "A" }], "→"))
    assert.isTrue(Option.isNone(parseJsonWithExactNumbers("{")))
    assert.deepStrictEqual(extractResponseRows([1, 2]), [])
    assert.isTrue(containsApiKey("ticker=TL_LIVE_abc"))
    assert.isFalse(containsApiKey("ticker=GAP7"))
  })
})
