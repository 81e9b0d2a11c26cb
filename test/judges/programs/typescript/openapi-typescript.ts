/** Calls the service with the types of openapi-typescript. */
import createClient from "openapi-fetch"
import type { paths } from "./generated/openapi-typescript.js"

const { TICKERLINE_KEY = "", TICKERLINE_URL = "" } = process.env
const client = createClient<paths>({ baseUrl: TICKERLINE_URL, headers: { "x-api-key": TICKERLINE_KEY } })

const found = await client.GET("/v1/ticker-changes", { params: { query: { ticker: "OSTK" } } })
const next: string | undefined = found.data?.results[0]?.history[0]?.new_ticker
if (next !== "BYON") throw new Error(`${found.response.status}: ${next}`)

const refused = await client.GET("/v1/ticker-changes", { params: { query: { ticker: "META" } } })
const code = refused.error?.error.code
if (code !== "ambiguous_ticker_lineage") throw new Error(`${refused.response.status}: ${code}`)

// @ts-expect-error unknown parameter
export const unknownParameter = () => client.GET("/v1/news", { params: { query: { tickr: "OSTK" } } })
