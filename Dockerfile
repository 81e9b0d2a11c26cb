# The service alone, for a PostgreSQL of your own: neither the embedded server nor a second Node is inside.
FROM node:24.21.0-bookworm-slim AS packages
WORKDIR /app
COPY package.json package-lock.json .npmrc ./
RUN npm ci --omit=dev --omit=optional

FROM node:24.21.0-bookworm-slim
ENV NODE_ENV=production HOST=0.0.0.0 PORT=8080 LOG_FORMAT=json
WORKDIR /app
COPY --from=packages /app/node_modules node_modules
COPY package.json LICENSE ./
COPY sql sql
COPY samples samples
COPY docs/guides docs/guides
COPY src src
# It writes to no file, so it may be run with a read-only file system.
USER node
EXPOSE 8080
# Liveness: a restart would not help where the database is away. Balancers ask /health/ready.
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s --retries=3 \
  CMD ["node", "--eval", "fetch(`http://127.0.0.1:${process.env.PORT}/health/live`).then((r) => process.exit(r.ok ? 0 : 1), () => process.exit(1))"]
ENTRYPOINT ["node", "--max-semi-space-size=16", "src/main.ts"]
CMD ["serve"]
