/** Loads the daily totals from `/v1/usage/daily`. */
import { requestWithKey } from "./api-key.js"
import { getListAt, getValueAt } from "./json-values.js"

/**
 * Loads all rows from the given day on. If a page fails, `failure` is its response.
 * @param {string} from `YYYY-MM-DD`
 * @param {AbortSignal} signal
 */
export const loadDailyUsage = async (from, signal) => {
  /** @type {Array<unknown>} */
  const rows = []
  for (let page = 1;; page += 1) {
    const response = await requestWithKey(`/v1/usage/daily?usage_date_from=${from}&limit=100&page=${page}`, signal)
    if (response.status !== 200) return { rows, failure: response }
    rows.push(...getListAt(response.body, "results"))
    if (getValueAt(response.body, "has_more") !== true) return { rows, failure: undefined }
  }
}
