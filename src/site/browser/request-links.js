/** Links to the reference, which can send the request in their query string (`try-request.js`). Pure. */

/**
 * The reference page of an endpoint, relative to the documentation: `reference/usage-daily` for `/v1/usage/daily`.
 * @param {string} path
 */
export const referencePageName = (path) => `reference/${path.replace(/^\/(v1\/)?/, "").replaceAll(/[/.]/g, "-")}`

/**
 * A link to a prepared request, for pages directly below `/v1/docs/`.
 * @param {string} path
 * @param {string} query `ticker=META&date=2026-03-02`
 */
export const makeRequestHref = (path, query) => `${referencePageName(path)}?${query}#try-it`
