/**
 * Traces of requests and their SQL statements, sent to `OTEL_EXPORTER_OTLP_ENDPOINT` if that is set. This module masks
 * API keys in URLs, and omits tool arguments and the values in database errors; Effect itself masks keys in headers.
 */
import { Config, ConfigProvider, Context, Effect, Exit, Layer, References, Tracer } from "effect"
import { FetchHttpClient } from "effect/http"
import { OtlpSerialization, OtlpTracer } from "effect/observability"
import packageJson from "../../../package.json" with { type: "json" }
import { redactApiKeys } from "../../contract/rules/Errors.ts"
import { hideValuesOfCause } from "../FailureText.ts"

/** Attributes in which Effect's AI toolkits would put the arguments of a tool call. */
const omittedAttributes: ReadonlySet<string> = new Set(["parameters"])

const redactSpan = (span: Tracer.Span): Tracer.Span => {
  const attribute = span.attribute.bind(span)
  const end = span.end.bind(span)
  return Object.assign(span, {
    attribute: (name: string, value: unknown) => {
      if (!omittedAttributes.has(name)) attribute(name, typeof value === "string" ? redactApiKeys(value) : value)
    },
    end: (time: bigint, exit: Exit.Exit<unknown, unknown>) =>
      end(time, Exit.isFailure(exit) ? Exit.failCause(hideValuesOfCause(exit.cause)) : exit),
  })
}

/** Masks keys in the configured tracer's spans. If no tracer is configured, turns tracing off to save time. */
export const layer = Layer.effectContext(Effect.map(Effect.context<never>(), (context) => {
  const tracer = context.mapUnsafe.has(Tracer.Tracer.key) ? Context.get(context, Tracer.Tracer) : undefined
  return tracer === undefined ? Context.make(References.TracerEnabled, false) : Context.make(
    Tracer.Tracer,
    Tracer.make({
      span: (options) => redactSpan(tracer.span(options)),
      ...(tracer.context === undefined ? {} : { context: tracer.context }),
    }),
  )
}))

/** Defaults for OpenTelemetry's environment variables, so that it is enough to set the endpoint. */
const defaults = ConfigProvider.layerAdd(ConfigProvider.fromUnknown({
  OTEL_TRACES_EXPORTER: "otlp",
  OTEL_SERVICE_NAME: packageJson.name,
  OTEL_SERVICE_VERSION: packageJson.version,
}))

/** Where traces are sent. `None` turns tracing off. */
export const OtlpEndpointConfig = Config.option(Config.URL("OTEL_EXPORTER_OTLP_ENDPOINT"))

/** The tracer that sends spans, configured by OpenTelemetry's environment variables. */
export const traceExporterLayer = Layer.unwrap(Effect.as(
  // Validates the URL here, so that an invalid one is reported like any other invalid setting.
  OtlpEndpointConfig,
  OtlpTracer.layerFromConfig(),
)).pipe(
  Layer.provide(defaults),
  Layer.provide(OtlpSerialization.layerJson),
  Layer.provide(FetchHttpClient.layer),
)
