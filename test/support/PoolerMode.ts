/**
 * `TEST_DATABASE=pgbouncer` runs the tests through a PgBouncer in transaction mode before their server. What tests look
 * at, prepare and lock themselves they reach directly; the service is reached as an operator would have it.
 */
import { Redacted } from "effect"
import * as Database from "../../src/db/Database.ts"

/** Told by who starts them to who runs in processes of their own. */
const told = "TEST_POOLER"

export const announcePooler = (server: number, pooler: number) => {
  process.env[told] = `${server} ${pooler}`
}

export const isPoolerRequested = process.env["TEST_DATABASE"] === "pgbouncer"

/** The way through the pooler to a database of the tests' server; none to other servers. */
const pooled = (url: string) => {
  const [server, pooler] = (process.env[told] ?? "").split(" ")
  const way = URL.canParse(url) ? new URL(url) : undefined
  if (way === undefined || pooler === undefined || way.port !== server) return undefined
  way.port = pooler
  return way.href
}

/** As that of `Database.ts`, and through the pooler. */
export const poolableClient = (
  { applicationName, url }: Pick<Database.DatabaseClientOptions, "url" | "applicationName">,
) => {
  const through = pooled(Redacted.value(url))
  return Database.databaseClientLayer(
    through === undefined ? { url, applicationName } : { url: Redacted.make(through), direct: url, applicationName },
  )
}

/** The settings of a process that has a `DATABASE_URL` of the tests' server. */
export const poolableSettings = (values: Readonly<Record<string, string>>) => {
  const { DATABASE_DIRECT_URL: direct, DATABASE_URL: url } = values
  const through = url === undefined || direct !== undefined ? undefined : pooled(url)
  return url === undefined || through === undefined
    ? values
    : { ...values, DATABASE_URL: through, DATABASE_DIRECT_URL: url }
}
