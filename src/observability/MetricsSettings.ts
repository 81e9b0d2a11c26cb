/** Settings of the metrics server. Apart from it, so that other commands do not load it. */
import { Config } from "effect"

export const MetricsPortConfig = Config.option(Config.Port("METRICS_PORT"))
export const MetricsHostConfig = Config.NonEmptyString("METRICS_HOST").pipe(Config.withDefault("127.0.0.1"))
