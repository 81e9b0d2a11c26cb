/**
 * Lists of values in a single parameter (D33). The syntax is that of a CSV record: commas separate the values, a value
 * that contains a comma is enclosed in double quotes, and a double quote within quotes is doubled.
 */

const quotingAdvice =
  `write a value that contains a comma in double quotes, such as "Wholesale-Drugs, Proprietaries", ` +
  "and a double quote inside them twice"

/** A list in the syntax of a programming language, such as `[A, B]`, `["A", "B"]` or `('A', 'B')`. */
const printedList = /^\s*(?:\[.+\]|[({]\s*(["']).*\1\s*,?\s*[)}])\s*$/s

/**
 * How programming languages print a missing value. `NA` and `none` are left out because they can be real values: `NA`
 * is Namibia's country code, for example.
 */
const missingValue = /^(?:null|NULL|undefined|None|nil|<nil>|NaN)$/

/**
 * A value followed by a comma. The first group captures the contents of a quoted value, the second group captures an
 * unquoted value.
 */
const listItem = /(?:\s*"((?:[^"]|"")*)"\s*|([^,]*)),/gy

/** The values of a list, or the reason why it is invalid. */
export type ParsedTextList =
  | { readonly values: ReadonlyArray<string> }
  /** Why the list is invalid. The parameter name is put in front of the reason. */
  | { readonly reason: string }

/**
 * Splits a comma-separated list into its values. Unquoted values are trimmed, quoted values are taken as they are. If
 * the list looks like a mistake of the client program, such as `["A","B"]`, `A,,B` or `undefined`, returns the reason
 * why it is invalid instead.
 */
export const parseTextList = (text: string): ParsedTextList => {
  if (printedList.test(text)) {
    return { reason: "must not have brackets around its values; separate several values by commas: A,B" }
  }
  const values: Array<string> = []
  // `listItem` matches a value and the comma after it. The last value has no comma, so one is appended to the text.
  for (const [, quoted, unquoted = ""] of `${text},`.matchAll(listItem)) {
    const value = quoted === undefined ? unquoted.trim() : quoted.replaceAll(`""`, `"`)
    if (value === "") return { reason: `must not contain an empty value; remove it, or ${quotingAdvice}` }
    if (quoted === undefined && value.startsWith(`"`)) {
      return { reason: `has a value that begins with a double quote but does not end with one; ${quotingAdvice}` }
    }
    // In quotes, a word such as "null" is a value like any other.
    if (quoted === undefined && missingValue.test(value)) {
      return { reason: `must not be ${value}; if you mean this text, write "${value}" in double quotes` }
    }
    values.push(value)
  }
  return { values }
}

/** Formats values as a list. `parseTextList` returns the same values. */
export const formatTextList = (values: ReadonlyArray<string | number>) =>
  values.map((value) => {
    const text = String(value)
    return /[",()[\]{}]|^\s|\s$/.test(text) ? `"${text.replaceAll(`"`, `""`)}"` : text
  }).join(",")
