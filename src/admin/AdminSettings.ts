/** Settings of the admin API, in a separate module so that other commands do not load its server. */
import { Config } from "effect"
import { PostgresUrl } from "../db/pool/ConnectionSettings.ts"

/** The port of the admin API. If unset, there is none. */
export const AdminPortConfig = Config.option(Config.Port("ADMIN_PORT"))
export const AdminHostConfig = Config.NonEmptyString("ADMIN_HOST").pipe(Config.withDefault("127.0.0.1"))

/** The URL with which the admin API connects; by default that of the service, directly. */
export const AdminDatabaseUrlConfig = Config.option(Config.schema(PostgresUrl, "ADMIN_DATABASE_URL"))
