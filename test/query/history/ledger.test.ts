/**
 * Compares the history of random transactions with a model: every past state, and the changes made by each transaction
 * (decision 0113).
 */
import { assert, layer } from "@effect/vitest"
import { PgClient } from "@effect/sql-pg"
import { NodeServices } from "@effect/platform-node"
import { Effect, FileSystem, Layer, Option, Ref, Schema } from "effect"
import { Reactivity } from "effect/reactivity"
import { SqlClient } from "effect/sql"
import { decodeRows } from "../../../src/postgres/DecodeRows.ts"
import { loadableDatasets } from "../../../src/contract/Datasets.ts"
import { loadDatasetFile } from "../../../src/ingest/load/DatasetLoad.ts"
import { makeRandomChooser, type RandomChooser } from "../../support/RandomChoices.ts"
import { assertFoundMoreThan } from "../../support/ScanAssertions.ts"
import * as Service from "../../support/Service.ts"
import { getInputCount } from "../../support/Thoroughness.ts"

// @module-tag slow

/** Tables that cover special cases: a null or a date in the key, no non-key columns, and a generated column. */
const tables = ["historical_tickers", "ticker_changes", "news", "daily_prices"] as const
type Table = typeof tables[number]

const writers = ["A", "B", "C"] as const

/**
 * Returns a random statement that touches only one writer's rows, so concurrent transactions never wait for each other.
 */
const chooseStatement = (choose: RandomChooser, table: Table, writer: string) => {
  const ticker = `${writer}${choose(["1", "2", "3"])}`
  const other = `${writer}${choose(["1", "2", "3"])}`
  const day = `2024-01-0${choose(["1", "2"])}`
  const value = choose(["1", "2"])
  const nullableDay = choose([`'${day}'`, "null"])
  const changes: Record<Table, readonly [string, ...ReadonlyArray<string>]> = {
    historical_tickers: [
      `insert into historical_tickers values ('${ticker}', 'F${value}', ${nullableDay}) on conflict do nothing`,
      `update historical_tickers set date = date + 40 + ${value} where ticker = '${ticker}' and former_ticker = 'F1'`,
    ],
    ticker_changes: [
      `insert into ticker_changes (old_ticker, new_ticker, effective_date, status, recorded_at)
        values ('X', '${ticker}', '${day}', 'confirmed', '2024-01-01') on conflict do nothing`,
      `update ticker_changes set status = '${choose(["blocked", "confirmed"])}' where new_ticker = '${ticker}'`,
    ],
    news: [
      `insert into news (id, ticker, form_type, title, filed_at, created_at, last_updated)
        values ('${ticker}-${value}', '${ticker}', '8-K', 'One', '${day}', '${day}', '${day}')
        on conflict (id) do update set title = 'Two', ticker = '${other}'`,
      `update news set title = '${choose(["One", "Two", "Three"])}' where ticker = '${ticker}'`,
    ],
    daily_prices: [
      `insert into daily_prices (ticker, date, close) select '${ticker}', date '${day}' + day, ${value}
        from generate_series(0, 5) as day on conflict (ticker, date) do update set close = excluded.close`,
      `update daily_prices set close = close where ticker = '${ticker}'`,
      `update daily_prices set close = ${value} where ticker = '${ticker}' and date < '2024-01-04'`,
      `update daily_prices set date = date + 100 where ticker = '${ticker}' and date = '2024-01-03'`,
    ],
  }
  const column = table === "ticker_changes" ? "new_ticker" : "ticker"
  return choose([
    ...changes[table],
    changes[table][0],
    `delete from ${table} where ${column} = '${ticker}'`,
  ])
}

/**
 * A function that statements call while they write. It forces the transaction record to be completed early, and writes
 * to another dataset.
 */
const disturbFunction = `
  create function disturb(ticker text) returns int language plpgsql as $$ begin
    set constraints all immediate;
    insert into historical_tickers values (ticker, 'CALLED', null) on conflict do nothing;
    set constraints all immediate;
    perform set_config('tickerline.transaction', '7', true);
    return 0;
  end $$`

/** Returns a random statement that a client might use to try to hide its changes from the history. */
const chooseDisturbance = (choose: RandomChooser) => {
  const ticker = `A${choose(["1", "2", "3"])}`
  return choose([
    "set constraints all immediate",
    "set constraints all immediate",
    "set constraints history.record_transaction immediate",
    "set constraints all deferred",
    "set tickerline.transaction = '1'",
    "set local tickerline.written = 'news'",
    `insert into daily_prices (ticker, date, close, recorded_in)
      select '${ticker}', date '2024-03-01' + day, 1, 3 - day from generate_series(0, 3) as day on conflict do nothing`,
    `update daily_prices set recorded_in = ${choose(["1", "null"])} where ticker = '${ticker}'`,
    `insert into daily_prices (ticker, date, close)
      select '${ticker}', date '2024-04-01' + day + disturb('${ticker}'), 1 from generate_series(0, 3) as day
      on conflict (ticker, date) do update set close = daily_prices.close + 1`,
    `with removed as (delete from news where ticker = '${ticker}' returning disturb('${ticker}'))
      update daily_prices set close = close + (select count(*) from removed) where ticker = '${ticker}'`,
    `delete from historical_tickers where former_ticker = 'CALLED' and disturb('${ticker}') = 0`,
  ])
}

const States = Schema.Record(Schema.String, Schema.Array(Schema.String))
const decodeState = decodeRows(Schema.Struct({ rows: Schema.Array(Schema.String) }))
const decodeTransaction = decodeRows(Schema.Struct({ id: Schema.String, recorded_at: Schema.String }))
const decodeChanges = decodeRows(Schema.Struct({ dataset: Schema.String, kind: Schema.String, key: Schema.String }))
const decodeColumns = decodeRows(Schema.Struct({ names: Schema.String }))

/** Reads the rows of each table as JSON. */
const readState = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const state: Record<string, ReadonlyArray<string>> = {}
  for (const table of tables) {
    const [found] = yield* decodeState(sql`
      select array(
        select (to_jsonb(t) - array['recorded_in', 'search'])::text as row from ${sql(table)} as t order by 1
      ) as rows
    `)
    state[table] = found?.rows ?? []
  }
  return state
})

/** Reads the rows of a table as of a point in time, applying the schema's definition of visibility. */
const readPastState = Effect.fnUntraced(function* (table: Table, moment: string) {
  const sql = yield* SqlClient.SqlClient
  const [columns] = yield* decodeColumns(sql`
    select array_to_string(columns, ', ') as names from history.datasets where dataset = ${table}
  `)
  const names = sql.literal(columns?.names ?? "")
  const [found] = yield* decodeState(sql`
    with recorded as (select * from history.transactions where recorded_at <= ${moment}::text::timestamptz),
    highest as (select coalesce(max(id), 0) as id from recorded),
    versions as (
      select ${names}, coalesce(recorded_in, 0) as recorded_in, null::bigint as replaced_in
      from ${sql("public")}.${sql(table)}
      union all
      select ${names}, recorded_in, replaced_in from ${sql("history")}.${sql(table)}
    )
    select array(
      select (to_jsonb(versions) - array['recorded_in', 'replaced_in'])::text as row from versions
      where (recorded_in = 0 or recorded_in in (select id from recorded))
        and (replaced_in is null or replaced_in not in (select id from recorded))
      order by 1
    ) as rows
  `)
  return found?.rows ?? []
})

const getKeyColumns = (table: string) => loadableDatasets.find((dataset) => dataset.table === table)?.key ?? []

/** Returns the differences between two states in the format of `history.changes`. */
const compareStates = (before: typeof States.Type, after: typeof States.Type) =>
  tables.flatMap((dataset) => {
    const index = (rows: ReadonlyArray<string> = []) =>
      new Map(rows.map((row) => {
        const cells: Record<string, unknown> = JSON.parse(row)
        return [JSON.stringify(getKeyColumns(dataset).toSorted().map((name) => [name, cells[name]])), row] as const
      }))
    const [old, now] = [index(before[dataset]), index(after[dataset])]
    return Array.from(new Set([...old.keys(), ...now.keys()])).flatMap((key) => {
      const [was, is] = [old.get(key), now.get(key)]
      const kind = was === undefined ? "added" : is === undefined ? "removed" : "corrected"
      return was === is ? [] : [`${dataset} ${kind} ${key}`]
    })
  }).toSorted()

/** Reads a transaction's changes in the format of `compareStates`. */
const readChanges = Effect.fnUntraced(function* (transaction: string) {
  const sql = yield* SqlClient.SqlClient
  const found = yield* decodeChanges(sql`
    select dataset, kind, key::text from history.changes where transaction = ${transaction}::text::bigint
  `)
  return found.map(({ dataset, key, kind }) => {
    const cells: Record<string, unknown> = JSON.parse(key)
    return `${dataset} ${kind} ${JSON.stringify(Object.keys(cells).toSorted().map((name) => [name, cells[name]]))}`
  }).toSorted()
})

const readClock = Effect.flatMap(SqlClient.SqlClient, (sql) =>
  Effect.map(
    sql<{ readonly now: string }>`select clock_timestamp()::text as now`,
    ([row]) => row?.now ?? "",
  ))

const readNewestTransaction = Effect.flatMap(SqlClient.SqlClient, (sql) =>
  Effect.map(
    decodeTransaction(sql`
      select id::text, recorded_at::text from history.transactions where recorded_at is not null
      order by recorded_at desc limit 1
    `),
    ([row]) => row,
  ))

const services = Layer.mergeAll(NodeServices.layer, Reactivity.layer)

layer(Layer.provideMerge(Service.migratedDatabaseLayer, services), {
  excludeTestServices: true,
  timeout: "180 seconds",
})("The history", (it) => {
  it.effect("has every past state and the net changes of every transaction, for any statements (decision 0113)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const { config } = yield* PgClient.PgClient
      const connections = yield* Effect.forEach(writers, () => PgClient.make({ ...config, maxConnections: 1 }))
      const states: Array<{ readonly moment: string; readonly state: typeof States.Type }> = []
      const choose = makeRandomChooser(20_261_122)
      const open = new Set<number>()
      /** Runs a statement. Updates that violate a key constraint fail, and their transaction is rolled back. */
      const write = (connection: PgClient.PgClient, at: number, statement: string) =>
        Effect.catch(
          connection.unsafe(statement),
          () => Effect.andThen(connection`rollback`, Effect.sync(() => open.delete(at))),
        )
      let before = yield* readState
      let last = yield* readNewestTransaction
      for (let step = 0; step < getInputCount(600); step++) {
        const at = choose([0, 1, 2])
        const [connection, writer] = [connections[at], writers[at]]
        if (connection === undefined || writer === undefined) continue
        const table = choose(tables)
        if (!open.has(at)) {
          // `truncate` waits for all other writers, so it runs only while no transaction is open.
          if (open.size === 0 && choose([true, false, false, false, false])) {
            yield* Effect.ignore(sql.withTransaction(Effect.gen(function* () {
              yield* sql`truncate ${sql(table)}`
              for (const name of writers) yield* sql.unsafe(chooseStatement(choose, table, name))
            })))
          } else {
            yield* connection.unsafe(`begin isolation level ${choose(["read committed", "repeatable read"])}`)
            open.add(at)
            yield* write(connection, at, chooseStatement(choose, table, writer))
          }
        } else {
          const action = choose(["write", "write", "undo", "commit", "commit", "roll back"])
          if (action === "undo") yield* connection`savepoint a`
          if (action === "write" || action === "undo") {
            yield* write(connection, at, chooseStatement(choose, table, writer))
          }
          if (action === "undo" && open.has(at)) yield* connection`rollback to a`
          if (action === "commit" || action === "roll back") {
            yield* action === "commit" ? connection`commit` : connection`rollback`
            open.delete(at)
          }
        }
        const state = yield* readState
        const recorded = yield* readNewestTransaction
        const changes = compareStates(before, state)
        if (recorded?.id !== last?.id) {
          assert.deepStrictEqual(yield* readChanges(recorded?.id ?? ""), changes, `step ${step}`)
          states.push({ moment: recorded?.recorded_at ?? "", state })
        } else assert.deepStrictEqual(changes, [], `step ${step}`)
        if (choose([true, false, false])) states.push({ moment: yield* readClock, state })
        before = state
        last = recorded
      }
      for (const { moment, state } of states) {
        for (const table of tables) {
          assert.deepStrictEqual(yield* readPastState(table, moment), state[table], moment)
        }
      }
      assertFoundMoreThan(20, "states", states)
    }).pipe(Effect.scoped))

  it.effect("records every transaction once, whatever its clients set or call (decision 0113)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const { config } = yield* PgClient.PgClient
      const connection = yield* PgClient.make({ ...config, maxConnections: 1 })
      yield* sql.unsafe(disturbFunction)
      const choose = makeRandomChooser(20_261_123)
      const states: Array<{ readonly moment: string; readonly state: typeof States.Type }> = []
      let before = yield* readState
      let last = yield* readNewestTransaction
      for (let transaction = 0; transaction < getInputCount(200); transaction++) {
        yield* connection.unsafe(`begin isolation level ${choose(["read committed", "repeatable read"])}`)
        for (let count = choose([1, 2, 4, 8]); count > 0; count -= 1) {
          yield* connection`savepoint a`
          const statement = choose([chooseStatement(choose, choose(tables), "A"), chooseDisturbance(choose)])
          const written = yield* Effect.option(connection.unsafe(statement))
          if (Option.isNone(written) || choose([true, false, false, false])) yield* connection`rollback to a`
          if (choose([true, false])) yield* connection`release a`
        }
        yield* connection.unsafe(choose(["commit", "commit", "commit", "rollback"]))
        const state = yield* readState
        const recorded = yield* readNewestTransaction
        const changes = compareStates(before, state)
        if (recorded?.id !== last?.id) {
          assert.deepStrictEqual(yield* readChanges(recorded?.id ?? ""), changes, `transaction ${transaction}`)
          states.push({ moment: recorded?.recorded_at ?? "", state })
        } else assert.deepStrictEqual(changes, [], `transaction ${transaction}`)
        before = state
        last = recorded
      }
      for (const { moment, state } of states) {
        for (const table of tables) {
          assert.deepStrictEqual(yield* readPastState(table, moment), state[table], moment)
        }
      }
      assert.isNotEmpty(states)
    }).pipe(Effect.scoped))

  it.effect("does not hold back other commits after constraints were set immediate and rolled back (decision 0113)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const { config } = yield* PgClient.PgClient
      const other = yield* PgClient.make({ ...config, maxConnections: 1 })
      const count = Effect.map(
        sql<{ readonly count: number }>`select count(*)::int as count from history.changes where ticker like 'IMM%'`,
        ([row]) => row?.count,
      )
      yield* other`begin`
      yield* other`insert into daily_prices (ticker, date, close) values ('IMM1', '2024-02-01', 1)`
      yield* other`savepoint a`
      yield* other`set constraints all immediate`
      yield* other`insert into daily_prices (ticker, date, close) values ('IMM2', '2024-02-01', 1)`
      yield* other`rollback to a`
      yield* sql`insert into daily_prices (ticker, date, close) values ('IMM3', '2024-02-01', 1)`
      assert.strictEqual(yield* count, 1)
      yield* other`commit`
      assert.strictEqual(yield* count, 2)
    }).pipe(Effect.scoped))

  it.effect("records the writes of a role that may only write to a dataset (decision 0113)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const { config } = yield* PgClient.PgClient
      const role = yield* Effect.acquireRelease(
        Effect.map(
          sql<{ readonly name: string }>`select 'writer_' || md5(random()::text) as name`,
          ([row]) => row?.name ?? "",
        ),
        (name) => Effect.orDie(Effect.andThen(sql`drop owned by ${sql(name)}`, sql`drop role ${sql(name)}`)),
      )
      yield* sql`create role ${sql(role)}`
      yield* sql`grant select, insert, update, delete on daily_prices to ${sql(role)}`
      const writer = yield* PgClient.make({ ...config, maxConnections: 1 })
      const write = (statement: string) =>
        writer.withTransaction(Effect.gen(function* () {
          yield* writer`set local role ${writer(role)}`
          yield* writer`set local tickerline.transaction = '1'`
          yield* writer.unsafe(statement)
        }))
      yield* write("insert into daily_prices (ticker, date, close) values ('ROLE', '2024-02-01', 1)")
      yield* write("update daily_prices set close = 2, recorded_in = null where ticker = 'ROLE'")
      yield* write("update daily_prices set recorded_in = 1 where ticker = 'ROLE'")
      yield* write("delete from daily_prices where ticker = 'ROLE'")
      const kinds = yield* sql`select kind from history.changes where ticker = 'ROLE' order by transaction`
      assert.deepStrictEqual(kinds, [{ kind: "added" }, { kind: "corrected" }, { kind: "removed" }])
      for (
        const statement of [
          "select nextval('history.transaction_ids')",
          "select setval('history.transaction_ids', 1)",
          "select history.end_statement()",
          "set session_replication_role = replica",
          "alter table daily_prices disable trigger history_begin",
        ]
      ) {
        assert.strictEqual((yield* Effect.flip(write(statement))).reason._tag, "AuthorizationError", statement)
      }
    }).pipe(Effect.scoped))

  it.effect("covers every dataset, with its key, all of its columns and its indexes in each month (decision 0113, decision 0115)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      yield* sql`select create_month_partition(('history.' || dataset)::regclass, '2019-01-01') from history.datasets`
      const Tracked = Schema.Struct({
        dataset: Schema.String,
        key_columns: Schema.Array(Schema.String),
        missing: Schema.Array(Schema.String),
        triggers: Schema.Int,
        partitions: Schema.Int,
        version_indexes: Schema.Int,
      })
      const tracked = yield* decodeRows(Tracked)(sql`
        select dataset, key_columns,
          array(
            select attname::text from pg_attribute
            where attrelid = format('public.%I', dataset)::regclass and attnum > 0 and not attisdropped
            except
            select attname::text from pg_attribute where attrelid = format('history.%I', dataset)::regclass
          ) as missing,
          (select count(*)::int from pg_trigger
            where tgrelid = format('public.%I', dataset)::regclass and tgname like 'history%' and tgenabled = 'A')
            as triggers,
          (select count(*)::int from pg_inherits where inhparent = format('history.%I', dataset)::regclass)
            as partitions,
          (select count(*)::int from pg_inherits join pg_index on indexrelid = inhrelid and indisvalid
            where inhparent in (
              format('history.%I', dataset || '_key_recorded_in_idx')::regclass,
              format('history.%I', dataset || '_key_replaced_in_idx')::regclass
            )) as version_indexes
        from history.datasets
      `)
      const triggersPerDataset = 7
      const indexesPerMonth = 2
      const found = tracked.map(({ dataset, key_columns, missing, partitions, triggers, version_indexes }) => [
        dataset,
        key_columns.toSorted(),
        missing,
        triggers,
        version_indexes / partitions,
      ])
      const expected = [...loadableDatasets, { table: "company_symbols", key: ["alias", "cik"] }]
        .map(({ key, table }) => [table, key.toSorted(), [], triggersPerDataset, indexesPerMonth])
      assert.deepStrictEqual(found.toSorted(), expected.toSorted())
    }))

  it.effect("assigns times in commit order to transactions that overlap, and keeps them apart (decision 0113)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const { config } = yield* PgClient.PgClient
      const [first, second] = [
        yield* PgClient.make({ ...config, maxConnections: 1 }),
        yield* PgClient.make({ ...config, maxConnections: 1 }),
      ]
      yield* first`begin`
      yield* first`insert into daily_prices (ticker, date, close) values ('LATE', '2024-02-01', 1)`
      yield* second`insert into daily_prices (ticker, date, close) values ('EARLY', '2024-02-01', 1)`
      const between = yield* readClock
      yield* first`commit`
      const countTestRows = (rows: ReadonlyArray<string>) => rows.filter((row) => /EARLY|LATE/.test(row)).length
      assert.strictEqual(countTestRows(yield* readPastState("daily_prices", between)), 1)
      assert.strictEqual(countTestRows(yield* readPastState("daily_prices", yield* readClock)), 2)
      const order = yield* sql`
        select key ->> 'ticker' as ticker, transaction < lag(transaction) over (order by recorded_at) as is_older
        from history.changes join history.transactions on transactions.id = transaction
        where ticker in ('EARLY', 'LATE') order by recorded_at
      `
      assert.deepStrictEqual(order, [{ ticker: "EARLY", is_older: null }, { ticker: "LATE", is_older: true }])
    }).pipe(Effect.scoped))

  it.effect("refuses a truncation that would remove rows that its transaction does not see (decision 0113)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const { config } = yield* PgClient.PgClient
      const other = yield* PgClient.make({ ...config, maxConnections: 1 })
      yield* sql`insert into daily_prices (ticker, date, close) values ('SEEN', '2024-02-01', 1)`
      for (const isolation of ["repeatable read", "serializable"]) {
        yield* other.unsafe(`begin isolation level ${isolation}`)
        yield* other`select from daily_prices`
        yield* sql`insert into daily_prices (ticker, date, close) values (${
          isolation === "serializable" ? "SER" : "REP"
        }, '2024-02-01', 1)`
        const refused = yield* Effect.flip(other`truncate daily_prices`)
        assert.strictEqual(refused.reason._tag, "SerializationError")
        yield* other`rollback`
      }
      const before = yield* readNewestTransaction
      yield* other`begin isolation level repeatable read`
      yield* other`truncate daily_prices`
      yield* other`commit`
      const after = yield* readNewestTransaction
      assert.notStrictEqual(after?.id, before?.id)
      const changes = yield* readChanges(after?.id ?? "")
      assert.lengthOf(changes.filter((change) => /SEEN|SER|REP/.test(change)), ["SEEN", "REP", "SER"].length)
      // With immediate constraints, this transaction is recorded later than a change that it cannot see.
      yield* other`begin isolation level repeatable read`
      yield* other`insert into daily_prices (ticker, date, close) values ('OWN', '2024-02-01', 1)`
      yield* sql`insert into daily_prices (ticker, date, close) values ('UNSEEN', '2024-02-01', 1)`
      yield* other`set constraints all immediate`
      assert.strictEqual((yield* Effect.flip(other`truncate daily_prices`)).reason._tag, "SerializationError")
    }).pipe(Effect.scoped))

  it.effect("records only the rows that a load changes (decision 0113, decision 0116)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const fs = yield* FileSystem.FileSystem
      const folder = yield* fs.makeTempDirectoryScoped()
      const write = (name: string, lines: ReadonlyArray<string>) =>
        Effect.as(
          fs.writeFileString(`${folder}/${name}`, ["ticker,date,close", ...lines, ""].join("\n")),
          `${folder}/${name}`,
        )
      const load = (file: string, append = false) =>
        Effect.flatMap(Ref.make(0), (progress) => loadDatasetFile({ dataset: "daily_prices", file, append }, progress))
      const prices = Array.from({ length: 100 }, (_, index) => `L${index},2024-03-01,1`)
      const unchangedPrices = prices.slice(1, -1)
      yield* load(yield* write("a.csv", prices))
      const first = yield* readNewestTransaction
      yield* load(yield* write("b.csv", ["L0,2024-03-01,2", ...unchangedPrices, "NEW,2024-03-01,1"]))
      const second = yield* readNewestTransaction
      assert.deepStrictEqual(yield* readChanges(second?.id ?? ""), [
        'daily_prices added [["date","2024-03-01"],["ticker","NEW"]]',
        'daily_prices corrected [["date","2024-03-01"],["ticker","L0"]]',
        'daily_prices removed [["date","2024-03-01"],["ticker","L99"]]',
      ])
      const recorded = yield* sql`
        select recorded_in::text as transaction, count(*)::int as rows from daily_prices group by recorded_in order by recorded_in
      `
      assert.deepStrictEqual(recorded, [
        { transaction: first?.id, rows: unchangedPrices.length },
        { transaction: second?.id, rows: ["corrected", "added"].length },
      ])
      yield* load(yield* write("b.csv", ["NEW,2024-03-01,1"]), true)
      assert.deepStrictEqual(yield* readNewestTransaction, second)
    }).pipe(Effect.scoped))

  it.effect("continues in new partitions when a new month begins (decision 0113)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      yield* sql`update history.current_month set month = '2020-01-01'`
      yield* sql`select create_month_partition(('history.' || dataset)::regclass, '2020-01-01') from history.datasets`
      yield* sql`select create_month_partition('history.changes', '2020-01-01')`
      yield* sql`insert into daily_prices (ticker, date, close) values ('MONTH', '2024-02-01', 1)`
      yield* sql`update daily_prices set close = 2 where ticker = 'MONTH'`
      yield* sql`select history.start_month()`
      yield* sql`update daily_prices set close = 3 where ticker = 'MONTH'`
      const kept = yield* sql`
        select trim_scale(close)::text as close, replaced_month = '2020-01-01' as is_old from history.daily_prices
        where ticker = 'MONTH' order by close
      `
      assert.deepStrictEqual(kept, [{ close: "1", is_old: true }, { close: "2", is_old: false }])
    }))

  it.effect("keeps a column that a migration adds, which earlier versions have with its default (decision 0113)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const write = (rank: string) =>
        sql.unsafe(`update split_status set details = details || 'x' ${rank} where id = 'column'`)
      yield* sql`
        insert into split_status (id, ticker, action_type, executed, details, filed_at, form_type, last_updated)
        values ('column', 'NEW', 'split_announced', false, '', '2026-01-02', '8-K', '2026-01-02 10:00:00')
      `
      yield* write("")
      yield* sql`alter table split_status add column rank int not null default 5, add column note text,
        add column double int generated always as (rank * 2) stored`
      yield* sql`select history.track('split_status')`
      yield* write(", rank = 7, note = 'seven'")
      yield* sql`update split_status set note = 'changed' where id = 'column'`
      const versions = yield* sql`
        select details, rank, note, double from history.split_status where id = 'column' order by replaced_in
      `
      assert.deepStrictEqual(versions, [
        { details: "", rank: 5, note: null, double: 10 },
        { details: "x", rank: 5, note: null, double: 10 },
        { details: "xx", rank: 7, note: "seven", double: 14 },
      ])
    }))
})
