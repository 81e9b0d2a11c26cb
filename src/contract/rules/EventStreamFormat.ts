/** Formats Server-Sent Events (WHATWG HTML, 9.2). */

/** The media type of Server-Sent Events. */
export const eventStreamContentType = "text/event-stream"

/** The field that tells clients to reconnect after one second. */
export const sseReconnectDelayField = "retry: 1000\n\n"

/**
 * Formats a heartbeat, which is a comment that keeps the connection open. If `id` is given, the client remembers it as
 * the last event id and sends it when it reconnects, although the comment itself causes no event.
 */
export const formatSseHeartbeat = (id: string | undefined) =>
  id === undefined ? ": heartbeat\n\n" : `: heartbeat\nid: ${id}\n\n`

/** Formats an event. `data` is serialized as JSON on a single line, because a line break would end the field. */
export const formatServerSentEvent = (event: string, data: unknown) =>
  `event: ${event}\ndata: ${JSON.stringify(data)}\n\n`
