/** That SECURITY.md is true: its tests are there, and what no other test of it holds. */
import { NodeServices } from "@effect/platform-node"
import { assert, describe, it, layer } from "@effect/vitest"
import { Effect, FileSystem } from "effect"
import { existsSync, globSync, readFileSync } from "node:fs"
import { createServer } from "node:http"
import { join } from "node:path"
import * as Processes from "../support/Processes.ts"
import { skipUnlessThorough } from "../support/Thoroughness.ts"

const { projectRoot, startProgram, combinedOutput } = Processes

const textOf = (file: string) => readFileSync(join(projectRoot, file), "utf8")

const security = textOf("SECURITY.md")

/** The cells of each row of the tables that has a test in its last one. */
const rows = security.split("\n").filter((line) => line.startsWith("|") && line.includes("test/")).map((line) =>
  line.split("|").slice(1, -1).map((cell) => cell.trim())
)

const cited = rows.flatMap(([risk = "", , tests = ""]) =>
  tests.split("<br>").map((test) => {
    const [, file = "", title = ""] = /^`(test\/[\w./-]+\.test\.ts)` "(.+)"$/.exec(test) ?? []
    return { risk, test, file, title }
  })
)

describe("SECURITY.md", () => {
  it("SECURITY.md, tests: each of OWASP's ten has its row, in their order, and what stands against it", () => {
    const ten = rows.filter(([risk = ""]) => risk.startsWith("API"))
    assert.deepStrictEqual(
      ten.map(([risk = ""]) => risk.split(" ")[0]),
      Array.from({ length: 10 }, (_, at) => `API${at + 1}`),
    )
    for (const [risk = "", how = ""] of rows) assert.isAbove(how.length, 20, risk)
  })

  it("SECURITY.md, tests: each test that it names is there, under this very title", () => {
    assert.isAtLeast(cited.length, 20)
    const missing = cited.filter(({ file, title }) =>
      file === "" || !existsSync(join(projectRoot, file)) || !textOf(file).includes(`"${title}"`)
    )
    assert.deepStrictEqual(missing.map(({ risk, test }) => `${risk}: ${test}`), [])
  })

  it("SECURITY.md, API7: nothing in src asks anybody but PostgreSQL, Redis, the collector of traces and the mail server", () => {
    const asking = [
      /\bfetch\(/,
      /\bHttpClient\b|FetchHttpClient|NodeHttpClient|NodeSocket\b|Undici|WebSocket/,
      /from "(node:)?(https|http2|dgram|tls)"/,
      /from "nodemailer(\/lib\/smtp-connection)?"/,
      /import \{[^}]*\b(request|get|connect|createConnection|Socket)\b[^}]*\} from "node:(http|net)"/,
    ]
    // These are no part of the service: they ask, and nothing that serves imports them (`test/house.test.ts`).
    const files = globSync("src/**/*.ts", { cwd: projectRoot }).filter((file) =>
      !/^src\/(client|query|doctor)\//.test(file)
    )
    assert.isAbove(files.length, 100)
    // The scan finds what it looks for where it is.
    for (const file of ["test/cli/secrets.test.ts", "test/support/Service.ts", "test/http/middleware.test.ts"]) {
      assert.isTrue(asking.some((pattern) => pattern.test(textOf(file))), file)
    }
    const found = files.filter((file) => asking.some((pattern) => pattern.test(textOf(file))))
    // The line leads to PostgreSQL alone: its target is read from DATABASE_URL.
    assert.sameMembers(found, [
      "src/db/health/SocketRegistry.ts",
      "src/mail/SmtpDelivery.ts",
      "src/observability/Tracing.ts",
    ])
  })
})

/** A registry that answers audits so, and knows nothing else. */
const registry = (advisories: unknown) =>
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

const hole = (severity: string) => ({
  effect: [{ id: 1, url: "https://advisories.example/1", title: "a hole", severity, vulnerable_versions: "*" }],
})

layer(NodeServices.layer, { excludeTestServices: true })("audit", (it) => {
  it.effect("SECURITY.md, audit: a known hole of a high severity fails, and an audit that cannot be is said loudly", () =>
    Effect.gen(function* () {
      yield* skipUnlessThorough
      const fs = yield* FileSystem.FileSystem
      const cases = [
        [{}, 0, "No known hole"],
        [hole("low"), 0, "No known hole"],
        [hole("high"), 1, "a hole"],
        [hole("critical"), 1, "a hole"],
        [undefined, 0, "THE AUDIT COULD NOT RUN"],
      ] as const
      for (const [advisories, code, said] of cases) {
        const { url } = yield* registry(advisories)
        const running = yield* startProgram("bash", [".ci/audit"], {
          npm_config_registry: url,
          npm_config_cache: yield* fs.makeTempDirectoryScoped(),
        })
        assert.strictEqual((yield* Effect.promise(() => running.ended)).code, code, combinedOutput(running))
        assert.include(combinedOutput(running), said)
      }
    }))
})
