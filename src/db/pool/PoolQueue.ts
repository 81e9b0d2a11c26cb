/** §7.2, §8: as many queries at once as there are connections; the others wait in line. */
import { Duration, Effect } from "effect"

interface Waiting {
  readonly lane: string
  readonly come: () => void
}

/**
 * `through` lets effects in, `places` at once and in the order in which they came; one that waits for longer than
 * `patience` fails with `refusal`, which is told whether its
 * own lane is why. A fifth of the places is never one lane's: where its table is locked or its queries
 * are slow, the others go on. Who leaves lets the next one in before going on, so that a connection does not stand
 * still while what came over it is printed. Effect's `Semaphore` would let newcomers overtake those in line.
 */
export const makePoolQueue = <Refusal>(
  places: number,
  patience: Duration.Duration,
  refusal: (isFull: boolean) => Refusal,
  most = places - Math.floor(places / 5),
) => {
  const longest = Duration.toMillis(patience)
  const line = new Set<Waiting>()
  const lanes = new Map<string, number>()
  let free = places

  const hasRoom = (lane: string) => free > 0 && (lanes.get(lane) ?? 0) < most
  const count = (lane: string, by: 1 | -1) => {
    const inside = (lanes.get(lane) ?? 0) + by
    free -= by
    if (inside === 0) lanes.delete(lane)
    else lanes.set(lane, inside)
  }

  const enter = (lane: string) =>
    Effect.callback<void, Refusal>((resume) => {
      if (hasRoom(lane)) {
        count(lane, 1)
        return resume(Effect.void)
      }
      const step = (then: Effect.Effect<void, Refusal>) => {
        clearTimeout(timer)
        line.delete(waiting)
        resume(then)
      }
      const timer = setTimeout(() => step(Effect.fail(refusal((lanes.get(lane) ?? 0) >= most))), longest)
      const waiting = { lane, come: () => step(Effect.void) }
      line.add(waiting)
      return Effect.sync(() => {
        clearTimeout(timer)
        line.delete(waiting)
      })
    })

  /** A place that becomes free is one more for one of those in line, and never for two. */
  const leave = (lane: string) =>
    Effect.sync(() => {
      count(lane, -1)
      for (const next of line) {
        if (!hasRoom(next.lane)) continue
        count(next.lane, 1)
        return next.come()
      }
    })

  const through = (lane: string) => <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A, E | Refusal, R> =>
    Effect.uninterruptibleMask((restore) =>
      Effect.flatMap(restore(enter(lane)), () => Effect.onExit(restore(effect), () => leave(lane)))
    )

  /** The same until the end of a scope. */
  const stay = (lane: string) => Effect.acquireRelease(enter(lane), () => leave(lane), { interruptible: true })
  return { through, stay, inside: () => places - free, waiting: () => line.size }
}
