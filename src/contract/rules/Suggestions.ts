/** Suggests the closest match for a misspelled name (D4, unknown parameters). */
import { Array, Option, Order } from "effect"

/**
 * Computes the edit distance between two strings: the number of insertions, deletions, substitutions and transpositions
 * of adjacent letters. This is the restricted Damerau-Levenshtein distance, in which no letter is edited twice.
 * `row[j]` is the distance between the letters of `left` processed so far and the first `j` letters of `right`.
 * `before` is the row above `row`.
 */
const computeDistance = (left: string, right: string) => {
  const [leftLetters, rightLetters] = [[...left], [...right]]
  let before: ReadonlyArray<number> = []
  let row: ReadonlyArray<number> = Array.range(0, rightLetters.length)
  for (const [i, letter] of leftLetters.entries()) {
    const next = [i + 1]
    for (const [j, other] of rightLetters.entries()) {
      const isSwapped = i > 0 && j > 0 && letter === rightLetters[j - 1] && other === leftLetters[i - 1]
      next.push(Math.min(
        (row[j] ?? 0) + (letter === other ? 0 : 1),
        (row[j + 1] ?? 0) + 1,
        (next[j] ?? 0) + 1,
        isSwapped ? (before[j - 1] ?? 0) + 1 : Number.POSITIVE_INFINITY,
      ))
    }
    before = row
    row = next
  }
  return row[rightLetters.length] ?? 0
}

const byDistance = Order.mapInput(Order.Number, ({ distance }: { readonly distance: number }) => distance)

const thirdOfLength = (name: string) => name.length / 3

/**
 * Returns the closest match, ignoring case. A name matches if it starts with `misspelled`, or if their edit distance is
 * at most a third of the name's length. `getTolerance`, if present, replaces both rules: it returns the maximum edit
 * distance for each name.
 */
export const findNearestName = (
  misspelled: string,
  names: ReadonlyArray<string>,
  getTolerance?: (name: string) => number,
): Option.Option<string> => {
  const text = misspelled.slice(0, 64).toLowerCase()
  const { length } = [...text]
  const candidates = names.flatMap((name) => {
    const tolerance = (getTolerance ?? thirdOfLength)(name)
    const isPrefix = getTolerance === undefined && text.length >= 3 && name.toLowerCase().startsWith(text)
    // The edit distance is never less than the difference in length, so there is no need to compute it.
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
