/** The name that was probably meant (D4). */
import { Array, Option, Order } from "effect"

/** Letters to insert, remove, change or swap with their neighbour to get from one word to the other. */
const distance = (left: string, right: string) => {
  const [letters, others] = [[...left], [...right]]
  let before: ReadonlyArray<number> = []
  let row: ReadonlyArray<number> = Array.range(0, others.length)
  for (const [i, letter] of letters.entries()) {
    const next = [i + 1]
    for (const [j, other] of others.entries()) {
      const isSwapped = i > 0 && j > 0 && letter === others[j - 1] && other === letters[i - 1]
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
  return row[others.length] ?? 0
}

const byDistance = Order.mapInput(Order.Number, ({ far }: { readonly far: number }) => far)

/** How many letters of a name may differ. */
const third = (name: string) => name.length / 3

/**
 * The closest of the names that begin with the text, or differ from it in few letters, whatever their case. With a
 * `tolerance` of its own, the beginning of a name is not enough.
 */
export const findNearestName = (
  sent: string,
  names: ReadonlyArray<string>,
  tolerance?: (name: string) => number,
): Option.Option<string> => {
  const text = sent.slice(0, 64).toLowerCase()
  const { length } = [...text]
  const near = names.flatMap((name) => {
    const most = (tolerance ?? third)(name)
    const isBeginning = tolerance === undefined && text.length >= 3 && name.toLowerCase().startsWith(text)
    // The distance is at least the difference in length.
    if (!isBeginning && Math.abs(length - name.length) > most) return []
    const far = distance(text, name.toLowerCase())
    return isBeginning || far <= most ? [{ name, far }] : []
  })
  return Option.map(Array.head(Array.sort(near, byDistance)), ({ name }) => name)
}

/** ` Did you mean news?`, or nothing. */
export const formatSuggestion = Option.match({ onNone: () => "", onSome: (name: string) => ` Did you mean ${name}?` })

export const suggestName = (sent: string, names: ReadonlyArray<string>) =>
  formatSuggestion(findNearestName(sent, names))
