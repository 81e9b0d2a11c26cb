-- How a request was sent: `mcp` for a tool of /mcp, null for an HTTP client.
alter table usage add column via text;
