/** Explains an error response and what the visitor can do about it. */
import { createElement, parseHtml } from "./dom.js"
import { getTextAt } from "./json-values.js"
import { renderProse } from "./markup.js"

/** @typedef {import("./api-key.js").ApiResponse} ApiResponse */

/** @param {ApiResponse} response */
const codeOf = ({ body }) => getTextAt(body, "error", "code")

/** Returns what the visitor can do. @param {ApiResponse} response */
const adviceFor = (response) => {
  const seconds = response.headers.get("Retry-After")
  const retry = seconds === null ? "" : ` Try again in ${seconds} s.`
  switch (response.status) {
    case 0:
      return "No response arrived. Check your connection and try again."
    case 401:
      switch (codeOf(response)) {
        case "invalid_api_key":
          return "This key does not exist. Check that you copied all of it, or enter another key above."
        case "api_key_disabled":
          return "Enter another key for this account above, or request a new one."
        default:
          return "Enter your API key above. The operator of this service creates keys with `tickerline keys create`. " +
            "A new installation with sample data has a demo key in the file `.tickerline/demo-key`."
      }
    case 402:
      return getTextAt(response.body, "error", "details", "reason") === "budget_exhausted"
        ? "The budget of the account for this month is used up or reserved by exports."
        : "The prepaid balance of the account is used up or reserved by exports."
    case 403:
      return "This key does not give access to this endpoint."
    case 502:
    case 504:
      return "A proxy in front of the service received no response from it. Try again in a moment."
    case 429:
      return `The account has reached its limit of requests per minute.${retry}`
    case 503:
      return `The data is temporarily unavailable.${retry}`
    default:
      return undefined
  }
}

const titlesByStatus = new Map([
  [0, "The service cannot be reached"],
  [401, "API key required"],
  [402, "Insufficient credits"],
  [403, "Access denied"],
  [404, "Not found"],
  [422, "Invalid request"],
  [429, "Too many requests"],
  [502, "The service did not respond"],
  [503, "Temporarily unavailable"],
  [504, "The service did not respond"],
])

const titlesByCode = new Map([
  ["invalid_api_key", "Invalid API key"],
  ["api_key_disabled", "API key disabled"],
])

/** @param {ApiResponse} response */
const isTemporary = ({ status }) => status === 0 || status === 429 || status >= 500

/**
 * Creates a notice that explains an error response.
 * @param {ApiResponse} response
 * @param {() => void} retry called by the button "Try again", which only temporary errors have
 */
export const createErrorNotice = (response, retry) => {
  const { body, headers, status } = response
  const code = codeOf(response)
  const id = headers.get("X-Request-Id")
  const title = titlesByCode.get(code ?? "") ?? titlesByStatus.get(status) ?? `The service returned status ${status}`
  const notice = createElement("div", { class: "notice" }, createElement("p", {}, createElement("strong", {}, title)))
  for (const text of [getTextAt(body, "error", "message"), adviceFor(response)]) {
    if (text !== undefined) notice.append(createElement("p", {}, parseHtml(renderProse(text))))
  }
  if (code !== undefined) {
    notice.append(createElement("p", { class: "quiet" }, `${status} ${code}${id === null ? "" : `, request ${id}`}`))
  }
  if (isTemporary(response)) {
    const button = createElement("button", { type: "button", class: "quiet" }, "Try again")
    button.addEventListener("click", retry)
    notice.append(createElement("p", {}, button))
  }
  return notice
}
