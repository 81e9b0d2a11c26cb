/**
 * Traces of requests and their SQL statements, which are sent to `OTEL_EXPORTER_OTLP_ENDPOINT` if that is set. This
 * module masks API keys in URLs, and omits tool arguments and the values in database errors. Effect itself masks keys
 * in headers.
 */
import { Config, ConfigProvider, Context, Effect, Exit, Layer, References, Tracer } from "effect"
import { FetchHttpClient } from "effect/http"
import { OtlpSerialization, OtlpTracer } from "effect/observability"
import packageJson from "../../../package.json" with { type: "json" }
import { redactApiKeys } from "../../contract/rules/ApiErrors.ts"
import { hideValuesOfCause } from "../FailureText.ts"

/** Span attributes in which Effect's AI toolkits store the arguments of a tool call. */
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

/** Masks API keys in the spans of the configured tracer. If no tracer is configured, disables tracing to save time. */
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

/** Defaults for OpenTelemetry's environment variables, so that only the endpoint needs to be set. */
const defaults = ConfigProvider.layerAdd(ConfigProvider.fromUnknown({
  OTEL_TRACES_EXPORTER: "otlp",
  OTEL_SERVICE_NAME: packageJson.name,
  OTEL_SERVICE_VERSION: packageJson.version,
}))

/** The endpoint that traces are sent to. `None` disables tracing. */
export const OtlpEndpointConfig = Config.option(Config.URL("OTEL_EXPORTER_OTLP_ENDPOINT"))

/** Creates the tracer that exports spans, as configured by OpenTelemetry's environment variables. */
export const traceExporterLayer = Layer.unwrap(Effect.as(
  // The URL is validated here so that an invalid one is reported in the same way as any other invalid setting.
  OtlpEndpointConfig,
  OtlpTracer.layerFromConfig(),
)).pipe(
  Layer.provide(defaults),
  Layer.provide(OtlpSerialization.layerJson),
  Layer.provide(FetchHttpClient.layer),
)
