/**
 * `TEST_DATABASE=pgbouncer` lets the service connect through PgBouncer in transaction mode. The tests themselves
 * connect to PostgreSQL directly.
 */
import { Redacted } from "effect"
import * as PooledClient from "../../src/postgres/pool/PooledClient.ts"

/** Environment variable through which the global setup passes the ports of server and pooler to the test workers. */
const portsVariable = "TEST_POOLER"

export const setPoolerPorts = (server: number, pooler: number) => {
  process.env[portsVariable] = `${server} ${pooler}`
}

export const isPoolerRequested = process.env["TEST_DATABASE"] === "pgbouncer"

/** Returns the URL of the database through the pooler. Undefined without a pooler, or for another server. */
const makePoolerUrl = (url: string) => {
  const [server, pooler] = (process.env[portsVariable] ?? "").split(" ")
  const target = URL.canParse(url) ? new URL(url) : undefined
  if (target === undefined || pooler === undefined || target.port !== server) return undefined
  target.port = pooler
  return target.href
}

/** Returns the service's database client, which connects through the pooler if requested. */
export const makePoolableClientLayer = (
  { applicationName, url }: Pick<PooledClient.DatabaseClientOptions, "url" | "applicationName">,
) => {
  const through = makePoolerUrl(Redacted.value(url))
  return PooledClient.databaseClientLayer(
    through === undefined ? { url, applicationName } : { url: Redacted.make(through), direct: url, applicationName },
  )
}

/** Adds the pooler to the settings of a process that uses the test server. */
export const addPoolerSettings = (values: Readonly<Record<string, string>>) => {
  const { DATABASE_DIRECT_URL: direct, DATABASE_URL: url } = values
  const through = url === undefined || direct !== undefined ? undefined : makePoolerUrl(url)
  return url === undefined || through === undefined
    ? values
    : { ...values, DATABASE_URL: through, DATABASE_DIRECT_URL: url }
}
