/** A key that a client put into the URL stays out of traces; those in headers are redacted by Effect itself. */
import { Context, Effect, Layer, Tracer } from "effect"
import { withoutKeys } from "./policy/Errors.ts"

const discreet = (span: Tracer.Span): Tracer.Span => {
  const attribute = span.attribute.bind(span)
  return Object.assign(span, {
    attribute: (name: string, value: unknown) =>
      attribute(name, typeof value === "string" ? withoutKeys(value) : value),
  })
}

/** Without a tracer there is nothing to hide, and requests take the fast path. */
export const layer = Layer.effectContext(Effect.map(Effect.context<never>(), (context) => {
  const tracer = context.mapUnsafe.has(Tracer.Tracer.key) ? Context.get(context, Tracer.Tracer) : undefined
  return tracer === undefined ? Context.empty() : Context.make(
    Tracer.Tracer,
    Tracer.make({
      span: (options) => discreet(tracer.span(options)),
      ...(tracer.context === undefined ? {} : { context: tracer.context }),
    }),
  )
}))
