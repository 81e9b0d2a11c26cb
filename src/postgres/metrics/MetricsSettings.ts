/** Settings of the metrics server, in a separate module so that other commands do not load the server. */
import { Config } from "effect"

export const MetricsPortConfig = Config.option(Config.Port("METRICS_PORT"))
export const MetricsHostConfig = Config.NonEmptyString("METRICS_HOST").pipe(Config.withDefault("127.0.0.1"))
