/** Formats Server-Sent Events (WHATWG HTML, 9.2). */

/** The media type of Server-Sent Events. */
export const eventStreamContentType = "text/event-stream"

/** Asks the client to reconnect after one second. */
export const sseReconnectDelayField = "retry: 1000\n\n"

/**
 * Formats a heartbeat: a comment, which keeps the connection open, and optionally an id. Clients store the id even
 * without an event.
 */
export const formatSseHeartbeat = (id: string | undefined) =>
  id === undefined ? ": heartbeat\n\n" : `: heartbeat\nid: ${id}\n\n`

/** Formats an event. `data` becomes JSON on a single line, because a line break would end the field. */
export const formatServerSentEvent = (event: string, data: unknown) =>
  `event: ${event}\ndata: ${JSON.stringify(data)}\n\n`
