/**
 * Lists of values in one parameter (D33). Commas separate the values, as in a line of CSV: a value that contains a
 * comma is in double quotes, and a double quote inside such a value is doubled.
 */

const quotingAdvice =
  `write a value that contains a comma in double quotes, such as "Wholesale-Drugs, Proprietaries", ` +
  "and a double quote inside them twice"

/** A list as programming languages print it, such as `[A, B]`, `["A", "B"]` or `('A', 'B')`. */
const printedList = /^\s*(?:\[.+\]|[({]\s*(["']).*\1\s*,?\s*[)}])\s*$/s

/**
 * How programming languages print a missing value. `NA` and `none` are not here: `NA` is Namibia, and `none` may be a
 * real value.
 */
const missingValue = /^(?:null|NULL|undefined|None|nil|<nil>|NaN)$/

/**
 * A value and the comma after it. The first group is the content of a value in double quotes, the second one any other
 * value.
 */
const listItem = /(?:\s*"((?:[^"]|"")*)"\s*|([^,]*)),/gy

/** The result of splitting a list. */
export type ParsedTextList =
  | { readonly values: ReadonlyArray<string> }
  /** Why the list is not valid. Completes a sentence that begins with the parameter's name. */
  | { readonly reason: string }

/**
 * Splits a list into its values, and trims those that are not quoted. Fails with a reason if the list looks like a
 * mistake.
 */
export const parseTextList = (text: string): ParsedTextList => {
  if (printedList.test(text)) {
    return { reason: "must not have brackets around its values; separate several values by commas: A,B" }
  }
  const values: Array<string> = []
  // With a comma at the end, every value is followed by one.
  for (const [, quoted, plain = ""] of `${text},`.matchAll(listItem)) {
    const value = quoted === undefined ? plain.trim() : quoted.replaceAll(`""`, `"`)
    if (value === "") return { reason: `must not contain an empty value; remove it, or ${quotingAdvice}` }
    if (quoted === undefined && value.startsWith(`"`)) {
      return { reason: `has a value that begins with a double quote but does not end with one; ${quotingAdvice}` }
    }
    if (quoted === undefined && missingValue.test(value)) {
      return { reason: `must not be ${value}; if you mean this text, write "${value}" in double quotes` }
    }
    values.push(value)
  }
  return { values }
}

/** Formats values as a list from which `parseTextList` gets the same values. */
export const formatTextList = (values: ReadonlyArray<string | number>) =>
  values.map((value) => {
    const text = String(value)
    return /[",()[\]{}]|^\s|\s$/.test(text) ? `"${text.replaceAll(`"`, `""`)}"` : text
  }).join(",")
