/** `query`: against the whole service on a socket, with the data of a first start. */
import { assert, describe, it, layer } from "@effect/vitest"
import { Effect, FileSystem, Option } from "effect"
import { createServer } from "node:http"
import { extractRows, formatSymbolHistory, parseExactJson } from "../../src/cli/query/ResponseRows.ts"
import { containsApiKey, parseQueryTarget } from "../../src/cli/query/QueryTarget.ts"
import { runCommand } from "../support/InProcessCommands.ts"
import { type Environment, findFreePort } from "../support/Processes.ts"
import * as Service from "../support/Service.ts"

const nowhere = { TICKERLINE_HOME: "/nonexistent" }

/** Asked with the basic key, as the environment gives it. */
const query = Effect.fnUntraced(function* (args: ReadonlyArray<string>, environment: Environment = {}) {
  const { basic } = yield* Service.TestKeys
  const port = yield* Service.servicePort
  return yield* runCommand(["query", ...args], {
    ...nowhere,
    PORT: String(port),
    TICKERLINE_KEY: basic,
    ...environment,
  })
})

/** A service of the test's own, for answers that ours never gives. */
const answering = (body: string, headers: Readonly<Record<string, string>> = { "content-type": "application/json" }) =>
  Effect.acquireRelease(
    Effect.callback<{ readonly url: string; readonly seen: Array<string | undefined>; readonly close: () => void }>(
      (resume) => {
        const seen: Array<string | undefined> = []
        const server = createServer((request, response) => {
          seen.push(request.headers.authorization)
          response.writeHead(200, headers).end(body)
        })
        server.listen(0, "127.0.0.1", () => {
          const address = server.address()
          const port = typeof address === "object" && address !== null ? address.port : 0
          resume(Effect.succeed({ url: `http://127.0.0.1:${port}`, seen, close: () => server.close() }))
        })
      },
    ),
    ({ close }) => Effect.sync(close),
  )

layer(Service.sampleDataLayer, { excludeTestServices: true })("query", (it) => {
  it.effect("README, command line: query prints rows as a table, and beside it what they cost", () =>
    Effect.gen(function* () {
      const { code, err, out } = yield* query(["/v1/ticker-changes?ticker=OSTK"], { LANG: "C.UTF-8" })
      assert.strictEqual(code, 0, err)
      const [names = "", row = "", ...more] = out.trimEnd().split("\n")
      assert.match(names, /^query_ticker {2}has_changes {2}current_ticker {2}history$/)
      assert.match(row, /^OSTK +true +NXH +OSTK → BYON \(2023-11-06\) → BBBY \(2025-08-29\) → NXH \(2026-08-17\)$/)
      assert.deepStrictEqual(more, [])
      assert.match(err, /^1 row, 0\.0000\d\d USD, \d+ of \d+ requests left this minute\n$/)
    }))

  it.effect("README, command line: the short name, parameters beside it, columns, CSV with every digit", () =>
    Effect.gen(function* () {
      const args = ["screener", "-p", "limit=20", "--columns", "ticker,market_cap", "--all", "--csv"]
      const { code, err, out } = yield* query(args)
      assert.strictEqual(code, 0, err)
      const lines = out.trimEnd().split("\n")
      assert.strictEqual(lines.length, 52)
      assert.strictEqual(lines[0], "ticker,market_cap")
      for (const line of lines.slice(1)) assert.match(line, /^[A-Z0-9.^-]+,\d*(\.\d+)?$/)
      assert.match(err, /^51 rows, /)
      const bound = yield* query(["screener", "-p", "limit=20", "--columns", "ticker", "--all", "--max", "25", "--csv"])
      assert.strictEqual(bound.out.trimEnd().split("\n").length, 26)
      assert.match(bound.err, /^25 rows, and more \(--max raises the bound\)/)
      const chain = yield* query(["ticker-changes", "-p", "ticker=OSTK", "--csv"])
      assert.match(chain.out, /\nOSTK,true,NXH,"\[\{""old_ticker"":""OSTK"",""new_ticker"":""BYON"",/)
    }))

  it.effect("§4.1 a refused lineage shows its candidates as chains", () =>
    Effect.gen(function* () {
      const { code, err, out } = yield* query(["ticker-changes", "-p", "ticker=META"])
      assert.strictEqual(code, 1)
      assert.strictEqual(out, "")
      assert.match(err, /^tickerline: 409 ambiguous_ticker_lineage: The history of META/)
      assert.match(err, /^ {2}META -> METV \(2022-01-31\) {3}Roundhill.*CIK 0001683471$/m)
      assert.match(err, /^ {2}FB -> META \(2022-06-09\) {3}Meta Platforms.*CIK 0001326801$/m)
    }))

  it.effect("§7.2 each wrong parameter has its line, a misspelt path and column the right one, a bad key its origin", () =>
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

  it.effect("README, command line: a key is no argument; it is read from a file, and sent to no other service unasked", () =>
    Effect.gen(function* () {
      const fs = yield* FileSystem.FileSystem
      const { pro } = yield* Service.TestKeys
      const home = yield* fs.makeTempDirectoryScoped({ prefix: "tickerline-query-" })
      const argued = yield* query([`/v1/news?key=${pro}`])
      assert.strictEqual(argued.code, 2)
      assert.match(argued.err, /A key does not belong into an argument/)
      assert.notInclude(argued.err, pro)
      yield* fs.writeFileString(`${home}/demo-key`, `${pro}\n`)
      const own = { TICKERLINE_HOME: home, TICKERLINE_KEY: "" }
      assert.strictEqual((yield* query(["news", "-p", "limit=1"], own)).code, 0)
      const other = yield* answering(`{"count":0,"results":[]}`)
      assert.strictEqual((yield* query(["news", "--url", other.url], own)).code, 0)
      assert.strictEqual((yield* query([`${other.url}/v1/news`], own)).code, 0)
      assert.deepStrictEqual(other.seen, [undefined, undefined])
      assert.strictEqual((yield* query(["news", "--url", other.url, "--key-file", `${home}/demo-key`], own)).code, 0)
      assert.strictEqual(other.seen.at(-1), `Bearer ${pro}`)
      assert.match((yield* query(["news", "--key-file", `${home}/none`])).err, /cannot be read from .*none: NotFound/)
    }))

  it.effect("README, command line: where no service runs it says how to start one", () =>
    Effect.gen(function* () {
      const port = yield* findFreePort
      const { code, err, out } = yield* query(["news"], { PORT: String(port) })
      assert.strictEqual(code, 1)
      assert.strictEqual(out, "")
      assert.match(
        err,
        /^tickerline: Nothing answers at http:\/\/127\.0\.0\.1:\d+\. Start the service \(npm start\).*\n$/,
      )
    }))

  it.effect("D16 --json is the answer to the byte, and a table shows every digit of it", () =>
    Effect.gen(function* () {
      const body = `{"results":[{"price":99999999999999.9999,"name":"a"},{"price":0.10,"name":null}]}`
      const { url } = yield* answering(body)
      assert.strictEqual((yield* query(["x", "--url", url, "--json"])).out, `${body}\n`)
      assert.include((yield* query(["x", "--url", url])).out, "99999999999999.9999  a\n               0.10\n")
      const html = yield* answering("<p>no data</p>", { "content-type": "text/html" })
      assert.strictEqual((yield* query(["x", "--url", html.url])).out, "<p>no data</p>\n")
    }))

  it.effect("README, command line: escape sequences in data and in errors do not reach the terminal", () =>
    Effect.gen(function* () {
      const { url } = yield* answering(JSON.stringify({ results: [{ a: "x\u001b]0;owned\u0007\u009b2J" }] }))
      assert.include((yield* query(["x", "--url", url])).out, "x\\u001b]0;owned\\u0007\\u009b2J")
      const strange = yield* query(["/v1/news?\u001b[2J=1"])
      assert.notInclude(strange.err, "\u001b")
    }))
})

describe("query, what was typed", () => {
  const paths = ["/v1/news", "/endpoints"]

  it("README, command line: news, v1/news, /v1/news and the whole address are one", () => {
    const wanted = { origin: undefined, path: "/v1/news", search: "?ticker=A" }
    for (const typed of ["news?ticker=A", "v1/news?ticker=A", "/v1/news?ticker=A"]) {
      assert.deepStrictEqual(parseQueryTarget(typed, {}, paths), wanted)
    }
    assert.deepStrictEqual(parseQueryTarget("https://api.example.com/v1/news?ticker=A", {}, paths), {
      ...wanted,
      origin: "https://api.example.com",
    })
    assert.deepStrictEqual(parseQueryTarget("endpoints", {}, paths), {
      origin: undefined,
      path: "/endpoints",
      search: "",
    })
    assert.strictEqual(parseQueryTarget("news?a=1", { b: "x&y=?" }, paths).search, "?a=1&b=x%26y%3D%3F")
  })

  it("§4.1 a chain is drawn from its changes, and nothing else is taken for one", () => {
    assert.strictEqual(formatSymbolHistory([{ old_ticker: "A", new_ticker: "B" }], "→"), "A → B")
    assert.isUndefined(formatSymbolHistory([], "→"))
    assert.isUndefined(formatSymbolHistory([{ old_ticker: "A" }], "→"))
    assert.isTrue(Option.isNone(parseExactJson("{")))
    assert.deepStrictEqual(extractRows([1, 2]), [])
    assert.isTrue(containsApiKey("ticker=TL_LIVE_abc"))
    assert.isFalse(containsApiKey("ticker=GAP7"))
  })
})
