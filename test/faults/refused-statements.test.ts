/**
 * Tests what the log, the health check and the metrics report when PostgreSQL refuses a running service's statements.
 */
import { NodeCrypto, NodeServices } from "@effect/platform-node"
import { assert, layer } from "@effect/vitest"
import { Effect, Layer, Schedule, Schema } from "effect"
import { SecureRandom } from "effect/crypto"
import { SqlClient } from "effect/sql"
import { grantRolePrivileges } from "../../src/postgres/migrations/ServiceRole.ts"
import * as CustomerUsage from "../support/CustomerUsage.ts"
import { valueAt } from "../support/DocumentedEndpoints.ts"
import { combinedOutput } from "../support/Processes.ts"
import * as Service from "../support/Service.ts"
import { requestOverWire, startServiceProcess } from "../support/ServiceInstances.ts"

// @module-tag slow

const database = Service.sampleDatabaseLayer.pipe(
  Layer.provideMerge(Layer.merge(NodeServices.layer, NodeCrypto.layer)),
)

/**
 * Creates a role with the service's privileges. Returns a URL with this role, and a function that revokes privileges on
 * all tables.
 */
const createServiceRole = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const role = `refused ${SecureRandom.uuidV7Unsafe()}`
  yield* Effect.acquireRelease(
    sql.unsafe(`create role "${role}" login password 'refused'`),
    () =>
      Effect.orDie(Effect.andThen(sql.unsafe(`drop owned by "${role}" cascade`), sql.unsafe(`drop role "${role}"`))),
  )
  yield* grantRolePrivileges(role)
  const url = new URL(yield* Service.databaseUrl)
  url.username = encodeURIComponent(role)
  url.password = "refused"
  const revoke = (privileges: string) =>
    Effect.forEach(
      ["public", "history"],
      (schema) => sql.unsafe(`revoke ${privileges} on all tables in schema ${schema} from "${role}"`),
      { discard: true },
    )
  return { url: url.href, revoke }
})

const LogEntry = Schema.fromJsonString(
  Schema.Struct({ level: Schema.String, message: Schema.Json, cause: Schema.optionalKey(Schema.String) }),
)

const readState = Effect.fnUntraced(function* (port: number) {
  const { text } = yield* requestOverWire(port, "/health/ready", "")
  const body: unknown = JSON.parse(text)
  return valueAt(body, "parts") ?? valueAt(body, "error", "details", "parts")
})

layer(database, { excludeTestServices: true, timeout: "180 seconds" })("Refused statements", (it) => {
  it.effect("are logged with PostgreSQL's reason by whatever part of the service runs them (operations/monitoring)", () =>
    Effect.gen(function* () {
      const { key } = yield* CustomerUsage.createCustomer("refused", { tier: "ultimate" })
      const { revoke, url } = yield* createServiceRole
      const { port, running } = yield* startServiceProcess(url, {
        LOG_FORMAT: "json",
        CACHE_MEGABYTES: "0",
        RATE_LIMIT_ULTIMATE: "100000",
      })
      const request = requestOverWire(port, "/v1/news?limit=1", key)
      assert.strictEqual((yield* request).status, 200)
      yield* revoke("insert, update, delete")
      const states: Array<unknown> = []
      yield* Effect.repeat(
        Effect.gen(function* () {
          assert.strictEqual((yield* request).status, 200)
          const state = yield* readState(port)
          states.push(valueAt(state, "limits"))
          return state
        }),
        { until: (state) => valueAt(state, "usage") === "late", schedule: Schedule.spaced("200 millis"), times: 600 },
      )
      // Once rate limits are reported as not shared, they are never reported as shared while PostgreSQL refuses the
      // statements.
      assert.deepStrictEqual(new Set(states.slice(states.indexOf("alone"))), new Set(["alone"]))
      yield* revoke("select")
      assert.strictEqual((yield* request).status, 500)

      const entries = combinedOutput(running).split("\n").filter((line) => line.startsWith("{")).map((line) => ({
        line,
        entry: Schema.decodeSync(LogEntry)(line),
      }))
      const failures = entries.filter(({ entry }) => entry.level === "WARN" || entry.level === "ERROR")
      // The reason was already logged when the lease could not be renewed.
      const isReasonKnown = (line: string) => line.includes("This process no longer runs the job")
      const unexplained = failures.filter(({ line }) =>
        !line.includes("permission denied for table") && !isReasonKnown(line)
      )
      assert.deepStrictEqual(unexplained.map(({ line }) => line), [])
      for (const part of ["Usage was not recorded", "Job leases cannot be renewed", "Unexpected failure"]) {
        assert.isTrue(failures.some(({ line }) => line.includes(part)), part)
      }
      assert.lengthOf(failures.filter(({ line }) => line.includes("Rate limits cannot be shared")), 1)
      assert.isFalse(entries.some(({ line }) => /Query failed|shared between processes again/.test(line)))
    }))
})
