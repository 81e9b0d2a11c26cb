/**
 * Compares the tables and filters that endpoints declare with the SQL that they execute. New endpoints are included
 * automatically.
 */
import { assert, layer } from "@effect/vitest"
import { Context, Effect, Layer, Schema } from "effect"
import { HttpApi } from "effect/http-api"
import { SqlClient } from "effect/sql"
import { BillingMiddleware } from "../../../src/contract/Authorization.ts"
import { Api } from "../../../src/contract/Api.ts"
import * as Datasets from "../../../src/contract/Datasets.ts"
import { getTablesReadByEndpoint, TablesReadByEndpoint } from "../../../src/contract/rules/EndpointAnnotations.ts"
import * as Filter from "../../../src/contract/rules/FilterParameters.ts"
import { PagingParameters } from "../../../src/contract/rules/Paging.ts"
import { compileFilters } from "../../../src/query/lists/FilterConditions.ts"
import {
  buildUrl,
  type DocumentedEndpoint,
  documentedEndpoints,
  type DocumentedParameter,
  isLineageParameter,
  makeRequiredQuery,
} from "../../support/DocumentedEndpoints.ts"
import * as GeneratedRows from "../../support/GeneratedRows.ts"
import * as Service from "../../support/Service.ts"
import * as StatementRecorder from "../../support/StatementRecorder.ts"
import { sampleUnlessThorough } from "../../support/Thoroughness.ts"

/** Fills all tables, so that PostgreSQL actually calls the functions in the statements. */
const service = Layer.effectDiscard(GeneratedRows.fillAllTables(100)).pipe(
  Layer.provideMerge(Service.layer),
  Layer.provideMerge(StatementRecorder.layer),
)

/** Returns the endpoints that return dataset rows, which are exactly the endpoints with a price (D27). */
const declared = () => {
  const found: Array<{ readonly path: string; readonly tables: ReadonlyArray<string> }> = []
  HttpApi.reflect(Api, {
    onGroup: () => {},
    onEndpoint: ({ endpoint, middleware }) => {
      // The change feed reads the history of all tables and is tested separately.
      const isFeed = endpoint.path.startsWith("/v1/changes")
      if (isFeed || !Array.from(middleware).some(({ key }) => key === BillingMiddleware.key)) return
      found.push({ path: endpoint.path, tables: Context.get(endpoint.annotations, TablesReadByEndpoint) })
    },
  })
  return found
}

/**
 * The declared endpoints without their lineage parameters, which are valid only in combination with other parameters.
 */
const readers = declared().map((reader) => {
  const { parameters, path } = documentedEndpoints.find(({ path }) => path === reader.path) ??
    { path: reader.path, parameters: [] }
  return { ...reader, endpoint: { path, parameters: parameters.filter((one) => !isLineageParameter(one)) } }
})

/** The lists that can follow several symbols. This excludes the timeline, which follows only one. */
const followable = documentedEndpoints.filter(({ parameters }) =>
  parameters.some(isLineageParameter) && parameters.some(({ kind }) => kind === "tickers")
).map(({ path }) => ({ path }))

/** Returns two values for a parameter that differ from its default, or one value for a boolean. */
const valuesOf = ({ kind, words }: DocumentedParameter): ReadonlyArray<string> => {
  if (words.length > 1) return words.slice(-2)
  if (kind === "boolean") return ["true"]
  if (kind === "date") return ["2014-01-02", "2014-01-03"]
  if (kind === "number" || kind === "integer") return ["2", "3"]
  return kind === "ticker" || kind === "tickers" ? ["T7", "T8"] : ["text 7", "text 8"]
}

const requestOf = (endpoint: DocumentedEndpoint, name: string, value: string) =>
  buildUrl(endpoint.path, [...makeRequiredQuery(endpoint, name), [name, value]])

/** Matches statements about keys and usage, which every request executes. */
const keyOrUsageStatement = /\b(accounts|api_keys|usage)\b/

/** Sends a request and returns its SQL statements, without those about keys and usage. */
const recordEndpointStatements = Effect.fnUntraced(function* (request: string) {
  const { ultimate } = yield* Service.TestKeys
  const { result, sent } = yield* StatementRecorder.recordStatements(Service.requestJson(request, { key: ultimate }))
  assert.include([200, 404, 409], result.status, `${request}: ${result.text}`)
  const statements = sent.filter(({ text }) => !keyOrUsageStatement.test(text))
  assert.isAbove(statements.length, 0, `${request} sends no statement`)
  return statements
})

/** Returns the tables and views that a statement opens, including those opened inside functions and views. */
const listOpenedTables = Effect.fnUntraced(function* ({ parameters, text }: StatementRecorder.SentStatement) {
  const sql = yield* SqlClient.SqlClient
  return yield* sql.withTransaction(Effect.gen(function* () {
    yield* sql.unsafe(text, parameters)
    const locked = yield* sql<{ readonly name: string }>`
      select distinct relname as name from pg_locks join pg_class on pg_class.oid = relation
      where pid = pg_backend_pid() and locktype = 'relation' and relkind in ('r', 'p', 'v', 'm', 'f')
        and relnamespace = 'public'::regnamespace
    `
    return locked.map(({ name }) => name)
  }))
})

const withOpened = (statement: StatementRecorder.SentStatement) =>
  Effect.map(listOpenedTables(statement), (tables) => [statement.text, tables] as const)

layer(service, { excludeTestServices: true, timeout: "120 seconds" })("The API", (it) => {
  it.effect("declares that its endpoints read every loadable table and no other, and each of these tables tracks its changes (D30)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const tables = Array.from(new Set(readers.flatMap((reader) => reader.tables))).toSorted()
      assert.deepStrictEqual(tables, Datasets.loadableDatasets.map(({ table }) => table).toSorted())
      const noted = yield* sql<{ readonly name: string }>`
        select distinct tgrelid::regclass::text as name from pg_trigger where tgname like 'note_change%' order by name
      `
      assert.includeMembers(noted.map(({ name }) => name), tables)
    }))

  it.effect.each(readers)(
    "reads exactly the declared tables, and uses each parameter in a statement: $path (D4, D17)",
    ({ endpoint, tables }) =>
      Effect.gen(function* () {
        const plain = yield* recordEndpointStatements(buildUrl(endpoint.path, makeRequiredQuery(endpoint)))
        const found = new Map(yield* Effect.forEach(plain, withOpened))
        // `explain` is left out, because it changes the statements only if the list has no rows.
        const parameters = endpoint.parameters.filter(({ name }) => name !== "explain")
        for (const parameter of sampleUnlessThorough(parameters, 3, endpoint.path.length)) {
          const sent = yield* Effect.forEach(
            valuesOf(parameter),
            (value) => recordEndpointStatements(requestOf(endpoint, parameter.name, value)),
          )
          const compared = [...(parameter.required ? [] : [plain]), ...sent].map((each) => JSON.stringify(each))
          assert.isAbove(compared.length, 1)
          assert.strictEqual(new Set(compared).size, compared.length, compared.join("\n"))
          // Statements with equal text open the same tables.
          for (const statement of sent.flat().filter(({ text }) => !found.has(text))) {
            found.set(...(yield* withOpened(statement)))
          }
        }
        assert.sameMembers(Array.from(new Set(Array.from(found.values()).flat())), Array.from(tables))
      }),
  )

  it.effect.each(followable)(
    "with follow_lineage, also reads ticker_changes, and reads the rows of all symbols together: $path (D35)",
    ({ path }) =>
      Effect.gen(function* () {
        const tables = readers.find((reader) => reader.path === path)?.tables ?? []
        const [resolution, ...others] = yield* recordEndpointStatements(`${path}?ticker=N7,O8&follow_lineage=true`)
        assert.deepStrictEqual(yield* listOpenedTables(resolution ?? { text: "", parameters: [] }), ["ticker_changes"])
        const isSnapshot = ["screener", "float_outstanding", "pump_and_dump_tracker"].includes(tables[0] ?? "")
        // One statement reads the page, and another counts the omitted rows. Snapshots omit no rows and need no count.
        assert.lengthOf(others, isSnapshot ? 1 : 2)
        for (const statement of others) assert.includeMembers([...tables], yield* listOpenedTables(statement))
        const plain = yield* recordEndpointStatements(`${path}?ticker=N7,O8&follow_lineage=false`)
        assert.deepStrictEqual(plain, yield* recordEndpointStatements(`${path}?ticker=N7,O8`))
      }),
  )

  it.effect("compiles literal conditions, but refuses a parameter that declares no filter (D4)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const silent = Schema.Struct({ silent: Schema.optionalKey(Schema.Boolean), ...PagingParameters })
      assert.throws(() => compileFilters(sql, silent), "The parameter silent declares no filter")
      const literal = Schema.Struct({
        ...Filter.makeBooleanFilters("is_adr"),
        flag: Schema.optionalKey(Schema.Boolean.annotate({
          filter: {
            operator: "literal",
            condition: ({ flag, is_adr }) => flag !== true ? undefined : is_adr === undefined ? "a" : "b",
          },
        })),
        ...PagingParameters,
      })
      const { buildConditions } = compileFilters(sql, literal)
      assert.deepStrictEqual(buildConditions({ flag: true, page: 1, limit: 10 }), ["a"])
      assert.deepStrictEqual(buildConditions({ flag: false, page: 1, limit: 10 }), [])
      assert.deepStrictEqual(buildConditions({ page: 1, limit: 10 }), [])
      const both = buildConditions({ is_adr: false, flag: true, page: 1, limit: 10 })
      assert.strictEqual(both.at(-1), "b")
      assert.lengthOf(both, 2)
    }))

  it.effect("refuses an endpoint that declares no tables (D17)", () =>
    Effect.sync(() => {
      const bare = { path: "/v1/bare", annotations: Context.empty() }
      assert.throws(() => getTablesReadByEndpoint(bare), "The endpoint /v1/bare does not declare the tables")
    }))
})
