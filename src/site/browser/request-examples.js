/**
 * Writes the request of a reference page in each language. Pure: the server renders the examples, and `try-request.js`
 * updates them.
 */

/**
 * A parameter that the request sends.
 * @typedef {object} ExampleParameter
 * @property {string} name
 * @property {string} value as in the request; for the type `parameters`, a query string of any other parameters
 * @property {string} type `number`, `boolean`, `list`, `parameters` or `text`
 */

/**
 * @typedef {object} ExampleRequest
 * @property {string} serviceUrl
 * @property {string} path
 * @property {ReadonlyArray<ExampleParameter>} parameters
 * @property {boolean} needsKey
 * @property {string} clientMethod the endpoint's name in the TypeScript client; empty if the clients do not cover it
 */

/** @param {ReadonlyArray<ExampleParameter>} parameters */
const listQueryPairs = (parameters) =>
  parameters.flatMap(({ name, type, value }) =>
    type === "parameters" ? Array.from(new URLSearchParams(value)) : [/** @type {const} */ ([name, value])]
  )

/**
 * Returns the path of the request with its query.
 * @param {Pick<ExampleRequest, "path" | "parameters">} request
 */
export const formatRequestPath = ({ parameters, path }) => {
  const query = new URLSearchParams()
  for (const [name, value] of listQueryPairs(parameters)) query.append(name, value)
  const text = query.toString().replaceAll("%2C", ",").replaceAll("%2F", "/")
  return text === "" ? path : `${path}?${text}`
}

/**
 * Returns the command for curl. Encodes `$` and backticks, which a shell interprets even inside double quotes.
 * @param {ExampleRequest} request
 * @param {string} [flags] flags of curl, each followed by a space
 */
export const formatCurlExample = (request, flags = "") => {
  const header = request.needsKey ? `${flags}-H "Authorization: Bearer $TICKERLINE_KEY" \\\n  ` : flags
  return `curl ${header}"${request.serviceUrl}${formatRequestPath(request).replace(/[$`]/g, encodeShellCharacter)}"`
}

/** @param {string} character */
const encodeShellCharacter = (character) => character === "$" ? "%24" : "%60"

/**
 * Whether the clients' method `get` can send the request. It decodes JSON, and does not return complete lists.
 * @param {ExampleRequest} request
 */
const canClientsSend = ({ clientMethod, parameters }) =>
  clientMethod !== "" &&
  !parameters.some(({ name, value }) =>
    (name === "format" && value !== "json") || (name === "limit" && value === "all")
  )

/**
 * Writes a value as a literal of Python and TypeScript, in which texts and numbers look as in JSON. A value becomes a
 * number only if that keeps all of its characters; otherwise it stays text, which the service may refuse.
 * @param {ExampleParameter} parameter
 * @param {(value: boolean) => string} formatBoolean
 */
const formatLiteral = ({ type, value }, formatBoolean) => {
  if (type === "boolean" && (value === "true" || value === "false")) return formatBoolean(value === "true")
  if (type === "number" && JSON.stringify(Number(value)) === value) return value
  if (type !== "list" || !value.includes(",")) return JSON.stringify(value)
  return `[${value.split(",").map((item) => JSON.stringify(item.trim())).join(", ")}]`
}

/** @param {ExampleRequest} request The parameter `format` is left to the client, which decodes JSON. */
const listClientParameters = ({ parameters }) => parameters.filter(({ name }) => name !== "format")

/**
 * Returns a program that prints the response, or an empty text if the client cannot send the request.
 * @param {ExampleRequest} request
 */
export const formatPythonExample = (request) => {
  if (!canClientsSend(request)) return ""
  const values = listClientParameters(request).map((parameter) => {
    if (parameter.type !== "parameters") {
      return `${parameter.name}=${formatLiteral(parameter, (value) => value ? "True" : "False")}`
    }
    const items = listQueryPairs([parameter]).map((pair) => pair.map((text) => JSON.stringify(text)).join(": "))
    return `${parameter.name}={${items.join(", ")}}`
  })
  // As in `clients/python/generate.py`: `/v1/gap-stats-advanced` is `gap_stats_advanced`.
  const method = request.path.replace(/^\/(v1\/)?/, "").replaceAll(/[-/.]+/g, "_")
  const url = JSON.stringify(request.serviceUrl)
  return `${request.needsKey ? "import os\n\n" : ""}from tickerline import Tickerline

tickerline = Tickerline(${url}${request.needsKey ? `, os.environ["TICKERLINE_KEY"]` : ""})
print(tickerline.${method}(${values.join(", ")}).get())`
}

/**
 * Returns a program that prints the response, or an empty text if the client cannot send the request.
 * @param {ExampleRequest} request
 */
export const formatTypeScriptExample = (request) => {
  if (!canClientsSend(request)) return ""
  const values = listClientParameters(request).flatMap((parameter) =>
    parameter.type === "parameters"
      ? listQueryPairs([parameter]).map(([name, value]) =>
        `${/^[a-z]\w*$/i.test(name) ? name : JSON.stringify(name)}: ${JSON.stringify(value)}`
      )
      : [`${parameter.name}: ${formatLiteral(parameter, String)}`]
  )
  const key = request.needsKey ? "const { TICKERLINE_KEY: apiKey } = process.env\n" : ""
  const options = `baseUrl: ${JSON.stringify(request.serviceUrl)}${request.needsKey ? ", apiKey" : ""}`
  const query = values.length === 0 ? "" : `{ ${values.join(", ")} }`
  return `import { createClient } from "tickerline"

${key}const tickerline = createClient({ ${options} })
console.log(await tickerline.${request.clientMethod}.get(${query}))`
}
