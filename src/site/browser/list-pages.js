/** Loads all pages of a list with the visitor's key. */
import { requestWithKey } from "./api-key.js"
import { getListAt, getValueAt } from "./json-values.js"

/**
 * Returns the rows of all pages. If a page fails, `failure` is its response.
 * @param {string} target path and parameters, without `limit` and `page`
 * @param {AbortSignal} signal
 */
export const loadEveryPage = async (target, signal) => {
  /** @type {Array<unknown>} */
  const rows = []
  let place = ""
  for (let page = 1;; page += 1) {
    const separator = target.includes("?") ? "&" : "?"
    const response = await requestWithKey(`${target}${separator}limit=100&page=${page}${place}`, signal)
    if (response.status !== 200) return { rows, failure: response }
    rows.push(...getListAt(response.body, "results"))
    if (getValueAt(response.body, "has_more") !== true) return { rows, failure: undefined }
    // The link to the next page has `after` if the list grows (D8).
    const [, after] = /[?&](after=[^&>]*)[^>]*>; rel="next"/.exec(response.headers.get("link") ?? "") ?? []
    place = after === undefined ? "" : `&${after}`
  }
}
