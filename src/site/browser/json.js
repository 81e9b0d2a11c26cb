/** Reads JSON of unknown shape. A missing or invalid value is undefined; a missing list is empty. Pure. */

/**
 * Returns the value at a path of keys and indexes.
 * @param {unknown} value
 * @param {ReadonlyArray<string | number>} path
 * @returns {unknown}
 */
export const at = (value, ...path) => {
  /** @type {unknown} */
  let found = value
  for (const key of path) {
    if (typeof found !== "object" || found === null) return undefined
    found = Reflect.get(found, key)
  }
  return found
}

/**
 * @param {unknown} value
 * @param {ReadonlyArray<string | number>} path
 */
export const textAt = (value, ...path) => {
  const found = at(value, ...path)
  return typeof found === "string" ? found : undefined
}

/**
 * @param {unknown} value
 * @param {ReadonlyArray<string | number>} path
 */
export const numberAt = (value, ...path) => {
  const found = at(value, ...path)
  return typeof found === "number" && Number.isFinite(found) ? found : undefined
}

/**
 * @param {unknown} value
 * @param {ReadonlyArray<string | number>} path
 * @returns {ReadonlyArray<unknown>}
 */
export const listAt = (value, ...path) => {
  const found = at(value, ...path)
  return Array.isArray(found) ? found : []
}

/**
 * @param {unknown} value
 * @param {ReadonlyArray<string | number>} path
 */
export const textsAt = (value, ...path) =>
  listAt(value, ...path).flatMap((item) => typeof item === "string" ? [item] : [])
