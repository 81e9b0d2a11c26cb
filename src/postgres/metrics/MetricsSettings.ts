/** Settings of the metrics server, in a module of their own so that other commands do not load the server. */
import { Config } from "effect"

/** The port for `/metrics`. `None` turns the metrics server off. */
export const MetricsPortConfig = Config.option(Config.Port("METRICS_PORT"))
/** The address on which the metrics server listens. */
export const MetricsHostConfig = Config.NonEmptyString("METRICS_HOST").pipe(Config.withDefault("127.0.0.1"))
