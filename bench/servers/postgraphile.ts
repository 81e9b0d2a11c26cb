/**
 * The PostGraphile server, which provides GraphQL over the same tables. It uses default settings and the connection
 * filter plugin.
 */
import { grafserv } from "postgraphile/grafserv/node"
import { makePgService } from "postgraphile/adaptors/pg"
import { PostGraphileAmberPreset } from "postgraphile/presets/amber"
import { postgraphile } from "postgraphile"
import { PostGraphileConnectionFilterPreset } from "postgraphile-plugin-connection-filter"
import { createServer } from "node:http"
import process from "node:process"

const connectionString = process.env["DATABASE_URL"] ?? ""

const instance = postgraphile({
  extends: [PostGraphileAmberPreset, PostGraphileConnectionFilterPreset],
  // With this plugin, PostGraphile would reject the endpoints' fixed conditions, because their columns have no index.
  disablePlugins: ["PgIndexBehaviorsPlugin"],
  pgServices: [
    makePgService({
      connectionString,
      schemas: ["public"],
      poolConfig: { max: 10 },
    }),
  ],
  schema: { pgOrderByNullsLast: true },
  grafserv: {
    port: Number(process.env["PORT"]),
    graphiql: false,
    watch: false,
  },
  grafast: { explain: false },
})

const server = createServer()
await instance.createServ(grafserv).addTo(server)
server.listen(Number(process.env["PORT"]), "127.0.0.1")
