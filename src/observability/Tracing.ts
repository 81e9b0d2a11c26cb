/**
 * A trace of each request with its SQL, sent to the collector of `OTEL_EXPORTER_OTLP_ENDPOINT`; none without it. A key
 * that a client put into the URL stays out of traces; those in headers are redacted by Effect itself.
 */
import { Config, ConfigProvider, Context, Effect, Layer, References, Tracer } from "effect"
import { FetchHttpClient } from "effect/http"
import { OtlpSerialization, OtlpTracer } from "effect/observability"
import packageJson from "../../package.json" with { type: "json" }
import { redactKeys } from "../rules/Errors.ts"

const discreet = (span: Tracer.Span): Tracer.Span => {
  const attribute = span.attribute.bind(span)
  return Object.assign(span, {
    attribute: (name: string, value: unknown) => attribute(name, typeof value === "string" ? redactKeys(value) : value),
  })
}

/** Without a tracer of somebody's no spans are made: Effect would make them of each request, for nobody. */
export const layer = Layer.effectContext(Effect.map(Effect.context<never>(), (context) => {
  const tracer = context.mapUnsafe.has(Tracer.Tracer.key) ? Context.get(context, Tracer.Tracer) : undefined
  return tracer === undefined ? Context.make(References.TracerEnabled, false) : Context.make(
    Tracer.Tracer,
    Tracer.make({
      span: (options) => discreet(tracer.span(options)),
      ...(tracer.context === undefined ? {} : { context: tracer.context }),
    }),
  )
}))

/** What OpenTelemetry's variables say where nobody sets them: one is enough to turn it on. */
const defaults = ConfigProvider.layerAdd(ConfigProvider.fromUnknown({
  OTEL_TRACES_EXPORTER: "otlp",
  OTEL_SERVICE_NAME: packageJson.name,
  OTEL_SERVICE_VERSION: packageJson.version,
}))

export const OtlpEndpointConfig = Config.option(Config.URL("OTEL_EXPORTER_OTLP_ENDPOINT"))

/** The tracer that sends them; the variables are OpenTelemetry's own. */
export const exporterLayer = Layer.unwrap(Effect.as(
  // Looked at here as well, where a wrong one is an error of configuration like any other.
  OtlpEndpointConfig,
  OtlpTracer.layerFromConfig(),
)).pipe(
  Layer.provide(defaults),
  Layer.provide(OtlpSerialization.layerJson),
  Layer.provide(FetchHttpClient.layer),
)
