/** Calls the service with the client of @hey-api/openapi-ts. */
import { createClient } from "./generated/hey-api/client/index.js"
import { tickerChangesResolve } from "./generated/hey-api/index.js"

const { TICKERLINE_KEY = "", TICKERLINE_URL = "" } = process.env
const client = createClient({ baseUrl: TICKERLINE_URL, auth: TICKERLINE_KEY })

const found = await tickerChangesResolve({ client, query: { ticker: "OSTK" } })
const current: string | null | undefined = found.data?.results[0]?.current_ticker
if (current !== "BBBY") throw new Error(`${found.response?.status}: ${current}`)

const refused = await tickerChangesResolve({ client, query: { ticker: "META" } })
const code = refused.error?.error.code
if (code !== "ambiguous_ticker_lineage") throw new Error(`${refused.response?.status}: ${code}`)

// @ts-expect-error unknown parameter
export const unknownParameter = () => tickerChangesResolve({ client, query: { tickr: "OSTK" } })
