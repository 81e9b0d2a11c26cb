/** Tests protection against SQL injection: PostgreSQL must receive every parameter of every endpoint as data. */
import { assert, layer } from "@effect/vitest"
import { Array as Arr, Context, Effect, Layer, Predicate } from "effect"
import { SqlClient } from "effect/sql"
import { getDefaultOpenApiDocument } from "../../../src/api/catalogue/OpenApiDocument.ts"
import { loadableDatasets } from "../../../src/contract/Datasets.ts"
import {
  buildUrl,
  documentedDatasetEndpoints,
  type DocumentedEndpoint,
  documentedEndpoints,
  makeRequiredQuery,
  type ParameterKind,
  valueAt,
} from "../../support/DocumentedEndpoints.ts"
import type { DocumentedParameter } from "../../support/DocumentedEndpoints.ts"
import { formatTextList } from "../../../src/contract/rules/CommaSeparatedLists.ts"
import * as GeneratedRows from "../../support/GeneratedRows.ts"
import { assertFoundMoreThan } from "../../support/ScanAssertions.ts"
import * as Service from "../../support/Service.ts"
import * as StatementRecorder from "../../support/StatementRecorder.ts"
import { sampleUnlessThorough } from "../../support/Thoroughness.ts"

/** A text that every hostile input contains. It may occur in the parameters of a statement, but never in its SQL. */
const marker = "zq7"

/** Hostile inputs that try to terminate a literal, a comment or a statement, or to call `pg_sleep`. */
const hostileInputs = [
  `${marker}'`,
  `'${marker}`,
  `"${marker}"`,
  `${marker}\\`,
  `${marker}\\'; drop table screener; --`,
  `${marker}'; drop table screener; --`,
  `${marker}'; update accounts set tier = 'ultimate'; --`,
  `${marker}' or '1'='1`,
  `${marker}' and 1 = (select count(*) from pg_sleep(60)) --`,
  `${marker}'; select pg_sleep(60); --`,
  `${marker}' union select key_hash::text from api_keys --`,
  `E'\\''${marker} or true --`,
  `$1${marker}`,
  `$${marker}$ or true -- $${marker}$`,
  `${marker}/*`,
  `%${marker}%`,
  `${marker}_`,
  `${marker}\0' or true --`,
  `${marker}ʼ or true`,
  `${marker}＇ or ’1’=’1`,
  `${marker}\r\n; drop table screener`,
  `{"${marker}": {"$ne": null}}`,
]

/** A valid value for each parameter type. Some hostile inputs start with it. */
const validPrefixes: Readonly<Record<ParameterKind, string>> = {
  number: "1",
  integer: "1",
  date: "2025-01-01",
  boolean: "true",
  words: "",
  ticker: "T1",
  tickers: "T1,",
  sort: "price",
  text: "text ",
}

/** Returns hostile inputs that start with a valid value for the parameter. */
const makeDisguised = ({ kind, words: [word = ""] }: DocumentedParameter) =>
  [
    `' or '${marker}'='${marker}`,
    `::text, pg_sleep(60) /*${marker}*/`,
    ` desc; select pg_sleep(60) --${marker}`,
    `);${marker}`,
    `,(select pg_sleep(60)/*${marker}*/)`,
    `"${marker}`,
  ].map((rest) => `${validPrefixes[kind]}${word}${rest}`)

/** Returns whether the parameter's type rules out every hostile input. */
const isTyped = ({ kind }: DocumentedParameter) =>
  kind === "number" || kind === "integer" || kind === "date" || kind === "boolean" || kind === "words"

/** Parameters that accept any text. Each has a separate test. */
const cases = documentedEndpoints.flatMap((endpoint) =>
  endpoint.parameters.filter((parameter) => !isTyped(parameter)).map((parameter) => ({
    endpoint,
    parameter,
    name: `${endpoint.path}?${parameter.name}`,
  }))
)

/** Typed parameters in groups of ten per request. Each may cause two errors, and a response lists at most twenty. */
const typedCases = documentedEndpoints.flatMap((endpoint) =>
  Arr.chunksOf(endpoint.parameters.filter(isTyped), 10).map((parameters) => ({
    endpoint,
    parameters,
    name: `${endpoint.path}?${parameters.map(({ name }) => name).join("&")}`,
  }))
)

/** The number of hostile values per parameter, unless the tests run thoroughly. */
const sampledValues = 6

/** Returns the hostile values for a parameter. Each of `hostileInputs` is used for every other parameter. */
const getHostileValues = (parameter: DocumentedParameter, index: number) =>
  sampleUnlessThorough(
    [...hostileInputs.filter((_, at) => at % 2 === index % 2), ...makeDisguised(parameter)],
    sampledValues,
    index,
  )

/** Returns the required query parameters of the endpoint, except those in `parameters`. */
const requiredExcept = (endpoint: DocumentedEndpoint, parameters: ReadonlyArray<DocumentedParameter>) =>
  makeRequiredQuery(endpoint).filter(([required]) => parameters.every(({ name }) => name !== required))

/** Builds the query of the request with index `at`. Each parameter cycles through its values. */
const makeQueryAt = (
  parameters: ReadonlyArray<DocumentedParameter>,
  values: ReadonlyArray<ReadonlyArray<string>>,
  at: number,
) => parameters.map(({ name }, index) => [name, values[index]?.[at % (values[index]?.length ?? 1)] ?? ""] as const)

/** Reads checksums of all data and of the schema. A request must change neither. */
const readDigests = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const digestOf = (table: string) =>
    sql<{ readonly digest: string }>`
      select md5(string_agg(
        (to_jsonb(t) - array['last_used_at', 'last_used_address', 'last_charged_at'])::text, '' order by t::text
      )) as digest
        from ${sql(table)} as t
    `
  const names = [
    ...loadableDatasets.map(({ table }) => table),
    "accounts",
    "api_keys",
    "credits",
    "tickerline_migrations",
  ]
  const tables = yield* Effect.forEach(names, (name) => Effect.map(digestOf(name), ([row]) => `${name} ${row?.digest}`))
  const [schema] = yield* sql`
    select md5(string_agg(concat_ws(' ', table_schema, table_name, column_name, data_type), ',' order by table_name,
      column_name)) as columns, (select count(*)::text from pg_proc) as functions
    from information_schema.columns
    where table_schema not in ('pg_catalog', 'information_schema') and table_name !~ '^usage_.*[0-9]{4}_[0-9]{2}$'
  `
  return { tables, columns: schema?.["columns"], functions: schema?.["functions"] }
})

type Digests = Effect.Success<typeof readDigests>

/** Provides the checksums taken before the first request. */
class Before extends Context.Service<Before, Digests>()("test/query/lists/Before") {}

const service = Layer.effect(Before, readDigests).pipe(
  Layer.provideMerge(Layer.effectDiscard(GeneratedRows.fillAllTables(60))),
  Layer.provideMerge(Service.layer),
  Layer.provideMerge(StatementRecorder.layer),
)

/**
 * Sends a request. Injected SQL would sleep until the statement timeout, and the response would have the status 503.
 */
const send = Effect.fnUntraced(function* (target: string, options: Service.TestRequestOptions = {}) {
  const { ultimate } = yield* Service.TestKeys
  return yield* Service.requestJson(target, { key: ultimate, ...options })
})

/** Returns the endpoint's documented status codes up to 499. */
const getDocumentedStatuses = (path: string) =>
  new Set(
    Object.keys(Object(valueAt(getDefaultOpenApiDocument(), "paths", path, "get", "responses"))).filter((status) =>
      status < "500"
    ),
  )

/** Sends all requests. Returns the statements that the service sent to PostgreSQL. */
const sendAll = Effect.fnUntraced(function* ({ path }: DocumentedEndpoint, targets: ReadonlyArray<string>) {
  const allowed = getDocumentedStatuses(path)
  const { sent } = yield* StatementRecorder.recordStatements(
    Effect.forEach(targets, (target) =>
      Effect.map(send(target), ({ status, text }) => {
        assert.isTrue(allowed.has(String(status)), `${target} returned ${status}: ${text}`)
      }), { concurrency: 8, discard: true }),
  )
  assert.deepStrictEqual(sent.filter(({ text }) => text.toLowerCase().includes(marker)).map(({ text }) => text), [])
  return sent
})

/**
 * Returns whether a parameter contains the marker in any case. Case is ignored because the service converts some values
 * to uppercase.
 */
const isMarked = ({ parameters }: StatementRecorder.SentStatement) =>
  parameters.some((parameter) => String(parameter).toLowerCase().includes(marker))

/** Returns all values of a property at any depth. */
const valuesOf = (body: unknown, name: string): ReadonlyArray<unknown> =>
  Array.isArray(body)
    ? body.flatMap((item) => valuesOf(item, name))
    : Predicate.isObject(body)
    ? Object.entries(body).flatMap(([key, value]) => key === name ? [value].flat() : valuesOf(value, name))
    : []

layer(service, { excludeTestServices: true, timeout: "120 seconds" })("The service", (it) => {
  it.effect.each(cases.map((one, index) => ({ ...one, index })))(
    "does not interpret $name as SQL (SECURITY.md)",
    ({ endpoint, index, parameter }) =>
      Effect.gen(function* () {
        const values = getHostileValues(parameter, index)
        const rest = makeRequiredQuery(endpoint, parameter.name)
        const sent = yield* sendAll(
          endpoint,
          values.map((value) => buildUrl(endpoint.path, [...rest, [parameter.name, value]])),
        )
        // Some inputs must have reached PostgreSQL as values. The exceptions are parameters whose text must have a
        // certain format, for which the service rejects all inputs, and the changelog, which has no table.
        const readsTable = !endpoint.path.startsWith("/v1/changelog")
        const hasFormat = ["endpoint", "status_code", "cik", "after", "month"].includes(parameter.name)
        if (readsTable && parameter.kind === "text" && !hasFormat) {
          const leastReceived = values.length / 6
          assert.isAbove(sent.filter(isMarked).length, leastReceived)
        }
      }),
  )

  it.effect.each(typedCases)(
    "does not interpret $name as SQL (SECURITY.md)",
    ({ endpoint, parameters }) =>
      Effect.gen(function* () {
        const values = parameters.map(getHostileValues)
        const rest = requiredExcept(endpoint, parameters)
        for (let at = 0; at < Math.max(...values.map(({ length }) => length)); at += 1) {
          const target = buildUrl(endpoint.path, [...rest, ...makeQueryAt(parameters, values, at)])
          const { result, sent } = yield* StatementRecorder.recordStatements(send(target))
          assert.strictEqual(result.status, 422, `${target} ${result.text}`)
          const refused = new Set(valuesOf(valueAt(result.body, "error", "details", "fields"), "field"))
          assert.sameMembers(Array.from(refused), parameters.map(({ name }) => name), target)
          assert.deepStrictEqual(sent.filter((one) => isMarked(one) || one.text.toLowerCase().includes(marker)), [])
        }
      }),
  )

  it.effect.each(documentedEndpoints)(
    "does not interpret parameter names as SQL: $path (SECURITY.md)",
    (endpoint) =>
      sendAll(
        endpoint,
        sampleUnlessThorough(hostileInputs, 5, endpoint.path.length).map((name) =>
          buildUrl(endpoint.path, [...makeRequiredQuery(endpoint), [name, "1"]])
        ),
      ),
  )

  it.effect.each(documentedDatasetEndpoints)(
    "does not interpret the parameters of an estimate as SQL: $path (SECURITY.md)",
    (endpoint) =>
      Effect.gen(function* () {
        const estimate = documentedEndpoints.find(({ path }) => path === "/estimate")
        const parametersByRequest = [...cases, ...typedCases].filter((one) => one.endpoint === endpoint)
          .map((one) => "parameter" in one ? [one.parameter] : one.parameters)
        const targets = parametersByRequest.flatMap((parameters) => {
          const values = parameters.map((one) => [...hostileInputs.slice(9, 11), ...makeDisguised(one).slice(0, 2)])
          return sampleUnlessThorough([0, 1, 2, 3], 4, endpoint.path.length).map((at) =>
            buildUrl("/estimate", [
              ["endpoint", endpoint.path],
              ...requiredExcept(endpoint, parameters),
              ...makeQueryAt(parameters, values, at),
            ])
          )
        })
        assert.isAtLeast(targets.length, parametersByRequest.length)
        yield* sendAll({ path: "/estimate", parameters: estimate?.parameters ?? [] }, targets)
      }),
  )

  it.effect("does not interpret keys, request ids, ETags or paths as SQL (SECURITY.md)", () =>
    Effect.gen(function* () {
      const { result, sent } = yield* StatementRecorder.recordStatements(Effect.forEach(
        hostileInputs.filter((text) => !/[\0\r\n]|[^\x20-\x7e]/.test(text)),
        Effect.fnUntraced(function* (text) {
          const withHostileKey = yield* send("/v1/news", { key: text })
          assert.strictEqual(withHostileKey.status, 401)
          const headers = { "X-Request-Id": text, "If-None-Match": `"${text}"`, traceparent: text, "User-Agent": text }
          assert.strictEqual((yield* send("/v1/news", { headers })).status, 200)
          const paths = [`/v1/${encodeURIComponent(text)}`, `/v1/news/${encodeURIComponent(text)}`]
          for (const path of paths) assert.strictEqual((yield* send(path)).status, 404)
          return text
        }),
      ))
      assertFoundMoreThan(10, "hostile texts", result)
      assert.isAtLeast(sent.length, result.length)
      assert.deepStrictEqual(sent.filter(({ text }) => text.toLowerCase().includes(marker)), [])
    }))

  it.effect("leaves the database unchanged, except for the recorded usage (SECURITY.md)", () =>
    Effect.gen(function* () {
      const before = yield* Before
      assertFoundMoreThan(20, "tables", before.tables)
      assert.notMatch(before.tables.slice(0, loadableDatasets.length).join(), /undefined|null/)
      assert.deepStrictEqual(yield* readDigests, before)
      const sql = yield* SqlClient.SqlClient
      const known = new Set(documentedEndpoints.map(({ path }) => path))
      const recorded = yield* sql<{ readonly endpoint: string }>`select distinct endpoint from usage_requests`
      assertFoundMoreThan(15, "recorded endpoints", recorded)
      assert.deepStrictEqual(recorded.filter(({ endpoint }) => !known.has(endpoint)), [])
    }))

  // -------------------------------------------------------------------------------------------------------------------
  // Rows found by a hostile text
  // -------------------------------------------------------------------------------------------------------------------

  /** Hostile texts without NUL characters and without trailing white space. */
  const texts = hostileInputs.filter((text) => !/\0|\s$/.test(text))

  /** Determines from the parameter's description which column it filters, and how. */
  const columnOf = (path: string, name: string) => {
    const parameters = valueAt(getDefaultOpenApiDocument(), "paths", path, "get", "parameters")
    const own = Array.isArray(parameters)
      ? parameters.find((parameter) => valueAt(parameter, "name") === name)
      : undefined
    const [, equal, part, list] =
      /(?:^Rows whose (\w+) is one of |^Part of (\w+), |values in (\w+), ignoring case\.)/.exec(
        String(valueAt(own, "description")),
      ) ?? []
    const named = list ?? equal ?? part ?? { accession_number: name, owner: "owners", tag: "tags" }[name]
    assert.isDefined(named, `${path}?${name}`)
    return {
      column: named ?? "",
      isList: list !== undefined || name === "owner" || name === "tag",
      isPart: part !== undefined || name === "owner",
    }
  }

  const filters = documentedDatasetEndpoints.flatMap((endpoint) => {
    const { parameters, path } = endpoint
    const table = loadableDatasets.map((dataset) => dataset.table).find((name) =>
      path.replaceAll("-", "_").startsWith(`/v1/${name}`)
    )
    return parameters.filter(({ kind, name }) => kind === "text" && name !== "query" && name !== "cik")
      .map(({ name }) => ({
        path,
        table: table ?? "",
        parameter: name,
        required: makeRequiredQuery(endpoint),
        ...columnOf(path, name),
      }))
  })

  it("is tested with enough filters and texts (SECURITY.md)", () => {
    assertFoundMoreThan(25, "filters", filters)
    assertFoundMoreThan(14, "hostile texts", texts)
  })

  it.effect.each(sampleUnlessThorough(filters, 3, 0))(
    "finds only the rows that match a hostile text, with $parameter of $path (SECURITY.md)",
    ({ column, isList, isPart, parameter, path, required, table }) =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        // Other programs may store any text, so the test stores the hostile texts in all rows and drops the constraints
        // that would prevent it.
        const checks = yield* sql<{ readonly name: string }>`
          select conname as name from pg_constraint where conrelid = ${table}::regclass and contype = 'c'
        `
        for (const { name } of checks) yield* sql`alter table ${sql(table)} drop constraint ${sql(name)}`
        const plain = isList ? sql`array['plain']` : sql`'plain ' || ctid`
        yield* sql`update ${sql(table)} set ${sql(column)} = ${plain}`
        // A result of this list is a filing, so all owners are assigned to a single filing.
        if (table === "ownership") {
          yield* sql`update ownership set ticker = 'ZZ9', accession_number = 'one', filed_at = '2025-01-02'`
        }
        const rows = yield* sql<{ readonly ctid: string }>`
          select ctid::text from ${sql(table)} order by ctid limit ${texts.length}
        `
        // The `country` filter converts its value to uppercase, and the countries in this table are uppercase.
        const storedTexts = texts.map((text) =>
          path.endsWith("-tracker") && parameter === "country" ? text.toUpperCase() : text
        )
        const changed = yield* sql`
          update ${sql(table)} as changed set ${sql(column)} = ${isList ? sql`array[one.text]` : sql`one.text`}
          from unnest(${rows.map(({ ctid }) => ctid)}::text[]::tid[], ${storedTexts}::text[]) as one (place, text)
          where changed.ctid = one.place returning 1
        `
        assert.lengthOf(changed, storedTexts.length)
        for (const text of sampleUnlessThorough(storedTexts, 5, parameter.length)) {
          const sent = isPart || parameter === "accession_number" ? text : formatTextList([text])
          const { body, status } = yield* send(buildUrl(path, [...required, [parameter, sent], ["limit", "100"]]))
          assert.strictEqual(status, 200)
          const expected = isPart
            ? storedTexts.filter((other) => other.toLowerCase().includes(text.toLowerCase()))
            : [text]
          const found = valuesOf(valueAt(body, "results"), column)
          // Some lists do not return the column that they filter by.
          if (found.length === 0) assert.strictEqual(valueAt(body, "count"), expected.length, text)
          else assert.sameMembers(Array.from(found), expected, text)
        }
      }),
  )
})
