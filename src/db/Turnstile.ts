/** §7.2, §8: as many queries at once as there are connections; the others wait in line. */
import { Duration, Effect } from "effect"

/**
 * `through` lets effects in, `places` at once and in the order in which they came; one that waits for longer than
 * `patience` fails with `refusal`. Who leaves lets the next one in before going on, so that a connection does not
 * stand still while what came over it is printed. Effect's `Semaphore` would let newcomers overtake those in line.
 */
export const turnstile = <Refusal>(places: number, patience: Duration.Duration, refusal: () => Refusal) => {
  const longest = Duration.toMillis(patience)
  const line = new Set<() => void>()
  let free = places

  const enter = Effect.callback<void, Refusal>((resume) => {
    if (free > 0) {
      free -= 1
      return resume(Effect.void)
    }
    const step = (then: Effect.Effect<void, Refusal>) => {
      clearTimeout(timer)
      line.delete(come)
      resume(then)
    }
    const come = () => step(Effect.void)
    const timer = setTimeout(() => step(Effect.fail(refusal())), longest)
    line.add(come)
    return Effect.sync(() => {
      clearTimeout(timer)
      line.delete(come)
    })
  })

  const leave = Effect.sync(() => {
    const [next] = line
    if (next === undefined) free += 1
    else next()
  })

  const through = <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A, E | Refusal, R> =>
    Effect.uninterruptibleMask((restore) =>
      Effect.flatMap(restore(enter), () => Effect.onExit(restore(effect), () => leave))
    )
  return { through, inside: () => places - free, waiting: () => line.size }
}
