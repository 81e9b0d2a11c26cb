/** Settings of the metrics server. They are in a separate module so that other commands do not load the server. */
import { Config } from "effect"

/** The port for `/metrics`. `None` disables the metrics server. */
export const MetricsPortConfig = Config.option(Config.Port("METRICS_PORT"))
/** The address that the metrics server listens on. */
export const MetricsHostConfig = Config.NonEmptyString("METRICS_HOST").pipe(Config.withDefault("127.0.0.1"))
