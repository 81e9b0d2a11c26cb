/**
 * With `TEST_DATABASE=pgbouncer`, services connect through PgBouncer in transaction mode. The tests themselves still
 * connect directly to PostgreSQL.
 */
import { Redacted } from "effect"
import * as PooledClient from "../../src/postgres/pool/PooledClient.ts"

/**
 * The environment variable with which the global setup passes the server port and the pooler port to the test workers.
 */
const portsVariable = "TEST_POOLER"

/** Passes the server port and the pooler port to the test workers. */
export const setPoolerPorts = (server: number, pooler: number) => {
  process.env[portsVariable] = `${server} ${pooler}`
}

/** Whether services connect through the pooler. */
export const isPoolerRequested = process.env["TEST_DATABASE"] === "pgbouncer"

/**
 * Returns the pooler's URL for a database, or undefined if there is no pooler or the database is on a different server.
 */
const makePoolerUrl = (url: string) => {
  const [server, pooler] = (process.env[portsVariable] ?? "").split(" ")
  const target = URL.canParse(url) ? new URL(url) : undefined
  if (target === undefined || pooler === undefined || target.port !== server) return undefined
  target.port = pooler
  return target.href
}

/**
 * Returns the layer of the service's database client. The client connects through the pooler if `TEST_DATABASE`
 * requests it.
 */
export const makePoolableClientLayer = (
  { applicationName, url }: Pick<PooledClient.DatabaseClientOptions, "url" | "applicationName">,
) => {
  const through = makePoolerUrl(Redacted.value(url))
  return PooledClient.databaseClientLayer(
    through === undefined ? { url, applicationName } : { url: Redacted.make(through), direct: url, applicationName },
  )
}

/** Routes a process that uses the test server through the pooler, by changing its settings. */
export const addPoolerSettings = (values: Readonly<Record<string, string>>) => {
  const { DATABASE_DIRECT_URL: direct, DATABASE_URL: url } = values
  const through = url === undefined || direct !== undefined ? undefined : makePoolerUrl(url)
  return url === undefined || through === undefined
    ? values
    : { ...values, DATABASE_URL: through, DATABASE_DIRECT_URL: url }
}
