/** The name that was probably meant (D4). */
import { Array, Option, Order } from "effect"

/** Letters to insert, remove or change to get from one word to the other. */
const distance = (left: string, right: string) => {
  let row: ReadonlyArray<number> = Array.range(0, right.length)
  for (const [i, letter] of [...left].entries()) {
    const next = [i + 1]
    for (const [j, other] of [...right].entries()) {
      next.push(Math.min((row[j] ?? 0) + (letter === other ? 0 : 1), (row[j + 1] ?? 0) + 1, (next[j] ?? 0) + 1))
    }
    row = next
  }
  return row[right.length] ?? 0
}

const byDistance = Order.mapInput(Order.Number, ({ far }: { readonly far: number }) => far)

/** The closest of the names that begin with what was sent, or differ from it by few letters, whatever their case. */
export const nearest = (sent: string, names: ReadonlyArray<string>): Option.Option<string> => {
  const text = sent.slice(0, 64).toLowerCase()
  const near = names.map((name) => ({ name, far: distance(text, name.toLowerCase()) })).filter(({ far, name }) =>
    far <= name.length / 3 || (text.length >= 3 && name.toLowerCase().startsWith(text))
  )
  return Option.map(Array.head(Array.sort(near, byDistance)), ({ name }) => name)
}

/** ` Did you mean news?`, or nothing. */
export const hint = (sent: string, names: ReadonlyArray<string>) =>
  Option.match(nearest(sent, names), { onNone: () => "", onSome: (name) => ` Did you mean ${name}?` })
