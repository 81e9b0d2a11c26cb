/**
 * Tests the check of ten well-known values after an ingest run, with recorded responses
 * (docs/operations/ingest-edgar.md).
 */
import { NodeServices } from "@effect/platform-node"
import { assert, layer } from "@effect/vitest"
import { Effect, FileSystem, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { fileURLToPath } from "node:url"
import * as Stub from "../../support/EdgarStub.ts"
import { runCommandInProcess } from "../../support/InProcessCommands.ts"
import * as Service from "../../support/Service.ts"

// @module-tag waiting

const page = fileURLToPath(new URL("../../../docs/operations/ingest-edgar.md", import.meta.url))

layer(Layer.merge(Service.migratedDatabaseLayer, NodeServices.layer), { excludeTestServices: true })(
  "ingest check",
  (it) => {
    it.effect(
      "finds the ten documented values after the documented run, and names those that differ (operations/ingest-edgar)",
      () =>
        Effect.gen(function* () {
          const sql = yield* SqlClient.SqlClient
          const fs = yield* FileSystem.FileSystem
          const [, section = ""] = (yield* fs.readFileString(page)).split("## Check ten known values in five minutes\n")
          const [, command = ""] = /tickerline -- (ingest edgar [^#]*?)\n/.exec(section) ?? []
          const [, documented = ""] = /```text recorded\n(.*?)```/s.exec(section) ?? []
          const stub = yield* Stub.startEdgarStub
          yield* Stub.removeRequestLimit
          Stub.addCompaniesAndFilings(stub)
          const environment = {
            DATABASE_URL: yield* Service.databaseUrl,
            EDGAR_BASE_URL: stub.url,
            EDGAR_USER_AGENT: "Acme Inc ops@acme.example",
          }
          const empty = yield* runCommandInProcess(["ingest", "check"], environment)
          assert.strictEqual(empty.code, 1)
          assert.match(
            empty.out,
            /^missing {2}CIK 0000320193 news\.filed_at_time: nothing, expected 2026-01-30T06:01:32\n/,
          )
          assert.match(empty.err, /10 of 10 values are different or missing\./)

          const loaded = yield* runCommandInProcess(
            command.replaceAll(/ --user-agent "[^"]*"/g, "").split(" "),
            environment,
          )
          assert.strictEqual(loaded.code, 0, loaded.err)
          const same = yield* runCommandInProcess(["ingest", "check"], environment)
          assert.strictEqual(same.out, documented)
          assert.strictEqual(same.code, 0, same.err)
          assert.strictEqual(same.out.match(/^same /gm)?.length, 10)

          yield* sql`update historical_float_pro set outstanding_shares = outstanding_shares * 10`
          const different = yield* runCommandInProcess(["ingest", "check"], environment)
          assert.strictEqual(different.code, 1)
          assert.include(
            different.out,
            "differs  AAPL historical_float_pro.outstanding_shares: 146811400000, expected 14681140000\n",
          )
          assert.match(different.err, /1 of 10 values is different or missing\./)
        }),
      60_000,
    )
  },
)
