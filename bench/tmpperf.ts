import { readFileSync } from "node:fs"
import pg from "pg"
import { startPostgres } from "./postgres.ts"
const postgres = await startPostgres()
const client = new pg.Client({ connectionString: postgres.url("bench") })
await client.connect()
try {
  await client.query("begin")
  await client.query("set local session_replication_role = replica")
  await client.query(`insert into edgar_companies (cik, tickers, primary_ticker, listed_on, primary_listed_on)
    select lpad(n::text, 10, '0'), array[ticker], ticker, current_date, current_date
    from (select ticker, row_number() over () as n from screener limit 10000) s on conflict do nothing`)
  await client.query(
    `insert into company_symbols (alias, cik, ticker) select primary_ticker, cik, primary_ticker from edgar_companies on conflict do nothing`,
  )
  await client.query("analyze edgar_companies; analyze company_symbols")
  for (const round of [1, 2, 3]) {
    for (const version of ["old", "new"]) {
      await client.query(readFileSync(`/tmp/perf/${version}.sql`, "utf8"))
      const start = performance.now()
      const { rows } = await client.query(
        "select count(*), count(market_cap), sum(market_cap) from find_market_caps(array(select ticker::text from screener), current_date)",
      )
      console.log(round, version, Math.round(performance.now() - start), JSON.stringify(rows))
    }
  }
} finally {
  await client.query("rollback")
  await client.end()
  await postgres.stop()
}
