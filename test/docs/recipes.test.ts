/**
 * Applies the recipes in docs/recipes.md to a copy of the project, compiles the copy, and calls the endpoints and
 * commands that the recipes add.
 *
 * @module-tag slow
 */
import { NodeCrypto, NodeServices } from "@effect/platform-node"
import { assert, layer } from "@effect/vitest"
import { Effect, FileSystem, Layer, Redacted } from "effect"
import { join } from "node:path"
import { compareContracts } from "../../clients/contract/CompareContracts.ts"
import { getDefaultOpenApiDocument } from "../../src/api/catalogue/OpenApiDocument.ts"
import { chooseFreePort } from "../../src/postgres/embedded/EmbeddedCluster.ts"
import { databaseClientLayer } from "../../src/postgres/pool/PooledClient.ts"
import { startProgram, waitForOutput } from "../support/Processes.ts"
import { copyProjectWithRecipes, recipeBlocks, runProgram } from "../support/Recipes.ts"
import { assertFoundMoreThan } from "../support/ScanAssertions.ts"
import { skipUnlessThorough } from "../support/Thoroughness.ts"
import * as Service from "../support/Service.ts"

layer(Layer.mergeAll(NodeServices.layer, NodeCrypto.layer), { excludeTestServices: true })("The recipes", (it) => {
  it.effect("compile, migrate a database, and do what they say (CONTRIBUTING.md)", () =>
    Effect.gen(function* () {
      yield* skipUnlessThorough
      assertFoundMoreThan(15, "code blocks", recipeBlocks)
      const folder = yield* copyProjectWithRecipes
      yield* runProgram("sh", [
        "-c",
        `cd ${folder} && "$(node_modules/.bin/effect-tsgo get-exe-path)" --noEmit --checkers 1`,
      ])

      // The recipes only add to the contract, as the next release may (§9.2, §9.3).
      const document = yield* runProgram(process.execPath, [
        "--input-type=module",
        "--eval",
        `import { getDefaultOpenApiDocument } from "${folder}/src/api/catalogue/OpenApiDocument.ts"
        console.log(JSON.stringify(getDefaultOpenApiDocument()))`,
      ])
      const differences = compareContracts(getDefaultOpenApiDocument(), JSON.parse(document), "2026-01-01")
      assert.deepStrictEqual(differences.filter(({ breaking }) => breaking), [])
      assert.includeDeepMembers(differences.map(({ kind, name, path }) => ({ kind, name, path })), [
        { kind: "added", name: "record_date", path: "/v1/split-status" },
        { kind: "added", name: "form_type", path: "/v1/split-status" },
        { kind: "added", name: null, path: "/v1/trading-halts" },
      ])

      const url = yield* Service.copyMigratedDatabase
      const context = yield* Layer.build(databaseClientLayer({ url, applicationName: "tickerline-test" }))
      const key = yield* Effect.provide(Service.ensureAccountWithKey("recipes", "basic"), context)
      const port = yield* chooseFreePort
      const environment = { DATABASE_URL: Redacted.value(url), PORT: String(port), START_MESSAGE: "All recipes work" }
      const command = join(folder, "src/main.ts")
      const serving = yield* startProgram(process.execPath, [command, "serve"], environment)
      yield* waitForOutput(serving, /^All recipes work$/m)

      const fs = yield* FileSystem.FileSystem
      const load = Effect.fnUntraced(function* (dataset: string, rows: string) {
        const file = join(folder, `${dataset}.csv`)
        yield* fs.writeFileString(file, rows)
        yield* runProgram(process.execPath, [command, "load", dataset, file], environment)
      })
      yield* load("trading-halts", "ticker,date,reason,minutes\nZYXA,2025-06-02,news,\nZYXA,2025-06-03,volatility,5\n")
      yield* load(
        "split-status",
        "id,ticker,action_type,executed,filed_at,form_type,last_updated,record_date\n" +
          "a,ZYXA,split_announced,false,2025-06-02,8-K,2025-06-02 10:00:00,2025-07-01\n" +
          "b,ZYXA,split_announced,false,2025-06-03,6-K,2025-06-03 10:00:00,\n",
      )
      const request = (path: string) =>
        Effect.promise(async (): Promise<unknown> => {
          const response = await fetch(`http://127.0.0.1:${port}${path}`, { headers: { "X-API-Key": key } })
          return response.json()
        })
      assert.deepNestedInclude(yield* request("/v1/trading-halts?ticker=ZYXA&min_minutes=1"), {
        count: 1,
        "results[0].reason": "volatility",
      })
      assert.deepNestedInclude(yield* request("/v1/split-status?ticker=ZYXA&form_type=8-k"), {
        count: 1,
        "results[0].record_date": "2025-07-01",
      })
      // With `as_of`, a different statement reads the tables that `history.track` creates.
      const now = new Date().toISOString()
      assert.deepNestedInclude(yield* request(`/v1/split-status?ticker=ZYXA&as_of=${now}`), {
        count: 2,
        "results[0].record_date": null,
      })
    }), { timeout: 300_000 })
})
