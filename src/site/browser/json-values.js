/** Reads JSON of unknown shape. A missing or invalid value is undefined; a missing list is empty. Pure. */

/**
 * Returns the value at a path of keys and indexes.
 * @param {unknown} value
 * @param {ReadonlyArray<string | number>} path
 * @returns {unknown}
 */
export const getValueAt = (value, ...path) => {
  /** @type {unknown} */
  let found = value
  for (const key of path) {
    if (typeof found !== "object" || found === null) return undefined
    found = Reflect.get(found, key)
  }
  return found
}

/**
 * Returns the text at a path.
 * @param {unknown} value
 * @param {ReadonlyArray<string | number>} path
 */
export const getTextAt = (value, ...path) => {
  const found = getValueAt(value, ...path)
  return typeof found === "string" ? found : undefined
}

/**
 * Returns the finite number at a path.
 * @param {unknown} value
 * @param {ReadonlyArray<string | number>} path
 */
export const getNumberAt = (value, ...path) => {
  const found = getValueAt(value, ...path)
  return typeof found === "number" && Number.isFinite(found) ? found : undefined
}

/**
 * Returns the list at a path.
 * @param {unknown} value
 * @param {ReadonlyArray<string | number>} path
 * @returns {ReadonlyArray<unknown>}
 */
export const getListAt = (value, ...path) => {
  const found = getValueAt(value, ...path)
  return Array.isArray(found) ? found : []
}

/**
 * Returns the texts in the list at a path.
 * @param {unknown} value
 * @param {ReadonlyArray<string | number>} path
 */
export const getTextsAt = (value, ...path) =>
  getListAt(value, ...path).flatMap((item) => typeof item === "string" ? [item] : [])
