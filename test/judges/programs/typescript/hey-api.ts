/** Calls the service with the client of @hey-api/openapi-ts. */
import { createClient } from "./generated/hey-api/client/index.js"
import { tickerChangesResolve } from "./generated/hey-api/index.js"

const { TICKERLINE_KEY = "", TICKERLINE_URL = "" } = process.env
const client = createClient({ baseUrl: TICKERLINE_URL, auth: TICKERLINE_KEY })

const found = await tickerChangesResolve({ client, query: { ticker: "OSTK" } })
const next: string | undefined = found.data?.results[0]?.history[0]?.new_ticker
if (next !== "BYON") throw new Error(`${found.response?.status}: ${next}`)

const refused = await tickerChangesResolve({ client, query: { ticker: "META" } })
const code = refused.error?.error.code
if (code !== "ambiguous_ticker_lineage") throw new Error(`${refused.response?.status}: ${code}`)

// @ts-expect-error unknown parameter
export const unknownParameter = () => tickerChangesResolve({ client, query: { tickr: "OSTK" } })
