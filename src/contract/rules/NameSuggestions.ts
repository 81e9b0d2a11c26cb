/** Suggests the closest match for a misspelled name (D4, unknown parameters). */
import { Array, Option, Order } from "effect"

/**
 * Computes the edit distance between two strings: the number of insertions, deletions, substitutions and transpositions
 * of adjacent letters. This is the restricted Damerau-Levenshtein distance, in which no letter is edited twice. For
 * example, `tikcer` is at distance 1 from `ticker`.
 *
 * The table of distances between all prefixes of the two strings is filled row by row. Only three rows are in memory:
 * `next[j]` is the distance between the first `i + 1` letters of `left` and the first `j` letters of `right`. `row` and
 * `previousRow` contain the same for the first `i` and `i - 1` letters of `left`. As all indexes exist, the defaults
 * after `??` are never used; TypeScript requires them.
 */
const computeDistance = (left: string, right: string) => {
  const [leftLetters, rightLetters] = [[...left], [...right]]
  let previousRow: ReadonlyArray<number> = []
  let row: ReadonlyArray<number> = Array.range(0, rightLetters.length)
  for (const [i, leftLetter] of leftLetters.entries()) {
    const next = [i + 1]
    for (const [j, rightLetter] of rightLetters.entries()) {
      const isSwapped = i > 0 && j > 0 && leftLetter === rightLetters[j - 1] && rightLetter === leftLetters[i - 1]
      next.push(Math.min(
        (row[j] ?? 0) + (leftLetter === rightLetter ? 0 : 1), // keep or substitute the letter
        (row[j + 1] ?? 0) + 1, // delete a letter of `left`
        (next[j] ?? 0) + 1, // insert a letter of `right`
        isSwapped ? (previousRow[j - 1] ?? 0) + 1 : Number.POSITIVE_INFINITY, // infinity: swapping is not possible
      ))
    }
    previousRow = row
    row = next
  }
  return row[rightLetters.length] ?? 0
}

const byDistance = Order.mapInput(Order.Number, ({ distance }: { readonly distance: number }) => distance)

const thirdOfLength = (name: string) => name.length / 3

/**
 * Returns the one of `names` that is closest to `misspelled`, ignoring case. Only names that are similar enough are
 * considered: those that start with `misspelled`, if it has at least three characters, and those whose edit distance
 * from `misspelled` is at most a third of the name's length. `getTolerance`, if present, replaces both rules: it
 * returns the maximum edit distance for each name.
 */
export const findNearestName = (
  misspelled: string,
  names: ReadonlyArray<string>,
  getTolerance?: (name: string) => number,
): Option.Option<string> => {
  // Clients may send very long texts, for which computing distances would take long. No name is longer than this.
  const text = misspelled.slice(0, 64).toLowerCase()
  const { length } = [...text]
  const candidates = names.flatMap((name) => {
    const tolerance = (getTolerance ?? thirdOfLength)(name)
    const isPrefix = getTolerance === undefined && text.length >= 3 && name.toLowerCase().startsWith(text)
    // The edit distance is never less than the difference in length. If that alone exceeds the tolerance, the distance
    // need not be computed.
    if (!isPrefix && Math.abs(length - name.length) > tolerance) return []
    const distance = computeDistance(text, name.toLowerCase())
    return isPrefix || distance <= tolerance ? [{ name, distance }] : []
  })
  return Option.map(Array.head(Array.sort(candidates, byDistance)), ({ name }) => name)
}

/**
 * Formats a suggestion as a sentence with a leading space, such as ` Did you mean news?`. Returns an empty string if
 * there is no suggestion.
 */
export const formatSuggestion = Option.match({ onNone: () => "", onSome: (name: string) => ` Did you mean ${name}?` })

/**
 * Returns the closest match for a misspelled name as a sentence with a leading space, or an empty string if no name is
 * similar enough.
 */
export const formatNameSuggestion = (misspelled: string, names: ReadonlyArray<string>) =>
  formatSuggestion(findNearestName(misspelled, names))
