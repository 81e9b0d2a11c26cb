/**
 * Tests that the tests cited in SECURITY.md exist, and that its claims about outgoing requests and the dependency audit
 * are true.
 */
import { NodeServices } from "@effect/platform-node"
import { assert, describe, it, layer } from "@effect/vitest"
import { Effect, FileSystem } from "effect"
import { globSync, readFileSync } from "node:fs"
import { createServer } from "node:http"
import { join } from "node:path"
import * as Processes from "../support/Processes.ts"
import { assertFoundMoreThan } from "../support/ScanAssertions.ts"
import { findCitations, findMissingCitations, findTableRows } from "./TestCitations.ts"
import { skipUnlessThorough } from "../support/Thoroughness.ts"

const { projectRoot, startProgram, combinedOutput } = Processes

const textOf = (file: string) => readFileSync(join(projectRoot, file), "utf8")

/** The rows of all tables. The cells are risk, protection and tests. */
const rows = findTableRows(textOf("docs/SECURITY.md")).map((row) => ({ row, cells: row.split("|").slice(1, -1) }))

describe("SECURITY.md", () => {
  it("names each of the OWASP top ten in order, with its protection and a test (SECURITY.md)", () => {
    const ids = rows.map(({ cells: [risk = ""] }) => risk.trim().split(" ")[0] ?? "")
    assert.deepStrictEqual(
      ids.filter((id) => id.startsWith("API")),
      Array.from({ length: 10 }, (_, at) => `API${at + 1}`),
    )
    for (const { cells: [risk = "", protection = ""], row } of rows) {
      assert.isAbove(protection.trim().length, 20, risk)
      assert.isNotEmpty(findCitations(row), risk)
    }
  })

  it("cites only existing tests, by their exact titles (SECURITY.md)", () => {
    const citations = rows.flatMap(({ row }) => findCitations(row))
    assertFoundMoreThan(20, "citations", citations)
    assert.isTrue(citations.every(({ title }) => title !== undefined))
    assert.deepStrictEqual(findMissingCitations(citations), [])
  })

  it("rightly says that the service contacts only PostgreSQL, the trace collector, the mail server, the identity provider, the SEC and webhook receivers (SECURITY.md)", () => {
    const requesting = [
      /(?<!\.)\bfetch\(/,
      /\bHttpClient\b|FetchHttpClient|NodeHttpClient|NodeSocket\b|Undici|WebSocket/,
      /from "(node:)?(https|http2|dgram|tls)"/,
      /from "nodemailer(\/lib\/smtp-connection)?"/,
      /from "openid-client"/,
      /import \{[^}]*\b(request|get|connect|createConnection|Socket)\b[^}]*\} from "node:(http|net)"/,
    ]
    const isRequesting = (file: string) => requesting.some((pattern) => pattern.test(textOf(file)))
    // The client and the commands `query`, `mcp` and `doctor` also send requests, but they are not part of the service.
    const files = globSync("src/**/*.ts", { cwd: projectRoot })
    const isService = (file: string) => !/^src\/(client\/|operate\/cli\/(query\/|doctor\/|McpCommand\.ts))/.test(file)
    assert.isAbove(files.filter((file) => !isService(file) && isRequesting(file)).length, 1)
    const found = files.filter((file) => isService(file) && isRequesting(file))
    // SocketRegistry connects only to the host in DATABASE_URL, and DatabaseTls encrypts that connection. ConsoleApi
    // sends requests only to the router of its own process.
    assert.sameMembers(found, [
      "src/operate/console/ConsoleApi.ts",
      "src/operate/console/OpenIdConnect.ts",
      "src/postgres/pool/DatabaseTls.ts",
      "src/postgres/health/SocketRegistry.ts",
      "src/ingest/edgar/fetch/EdgarClient.ts",
      "src/outbox/mail/SmtpDelivery.ts",
      "src/postgres/metrics/Tracing.ts",
      "src/outbox/webhooks/HttpDelivery.ts",
    ])
  })
})

/** Starts an npm registry that responds to audit requests with `advisories`, and to all other requests with 405. */
const startRegistry = (advisories: unknown) =>
  Effect.acquireRelease(
    Effect.callback<{ readonly url: string; readonly stop: () => void }>((resume) => {
      const server = createServer((request, response) => {
        const isAudit = request.url?.endsWith("/advisories/bulk") === true && advisories !== undefined
        request.resume().on("end", () => {
          response.writeHead(isAudit ? 200 : 405, { "Content-Type": "application/json" })
          response.end(JSON.stringify(isAudit ? advisories : {}))
        })
      }).listen(0, "127.0.0.1", () => {
        const address = server.address()
        const port = typeof address === "object" && address !== null ? address.port : 0
        resume(Effect.succeed({ url: `http://127.0.0.1:${port}/`, stop: () => server.close() }))
      })
    }),
    ({ stop }) => Effect.sync(stop),
  )

/** Returns an audit response with one vulnerability. */
const makeAdvisories = (severity: string) => ({
  effect: [{ id: 1, url: "https://advisories.example/1", title: "a hole", severity, vulnerable_versions: "*" }],
})

layer(NodeServices.layer, { excludeTestServices: true })("The dependency audit", (it) => {
  it.effect("fails on a vulnerability of high severity, and prints a warning if it cannot run (SECURITY.md)", () =>
    Effect.gen(function* () {
      yield* skipUnlessThorough
      const fs = yield* FileSystem.FileSystem
      const cases = [
        [makeAdvisories("low"), 0, "No known hole"],
        [makeAdvisories("high"), 1, "a hole"],
        [undefined, 0, "THE AUDIT COULD NOT RUN"],
      ] as const
      for (const [advisories, code, expected] of cases) {
        const { url } = yield* startRegistry(advisories)
        const running = yield* startProgram("bash", [".ci/audit"], {
          npm_config_registry: url,
          npm_config_cache: yield* fs.makeTempDirectoryScoped(),
        })
        assert.strictEqual((yield* Effect.promise(() => running.ended)).code, code, combinedOutput(running))
        assert.include(combinedOutput(running), expected)
      }
    }))
})
