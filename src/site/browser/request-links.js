/** Links to reference pages, which can send the request in the query string of the link (`try-request.js`). Pure. */

/**
 * Returns the path of a reference page, relative to the documentation: `reference/usage-daily` for `/v1/usage/daily`.
 * @param {string} path
 */
export const getReferencePageName = (path) => `reference/${path.replace(/^\/(v1\/)?/, "").replaceAll(/[/.]/g, "-")}`

/**
 * Returns a relative link to a prepared request, for pages directly below `/v1/docs/`.
 * @param {string} path
 * @param {string} query such as `ticker=META&date=2026-03-02`
 */
export const makeRequestHref = (path, query) => `${getReferencePageName(path)}?${query}#try-it`
