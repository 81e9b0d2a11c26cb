# The image contains only the service, for your own PostgreSQL: no embedded server and no second Node version.
# No package contains native code, so the packages are installed on the architecture of the builder: an image for another
# architecture needs no emulation.
FROM --platform=$BUILDPLATFORM node:24.21.0-bookworm-slim@sha256:d6aa754f16b3197301076f047b5def2f02ea1dbbc2ca920407d46d7ec7f87b20 AS packages
WORKDIR /app
COPY package.json package-lock.json .npmrc ./
RUN npm ci --omit=dev --omit=optional

FROM node:24.21.0-bookworm-slim@sha256:d6aa754f16b3197301076f047b5def2f02ea1dbbc2ca920407d46d7ec7f87b20
ENV NODE_ENV=production HOST=0.0.0.0 PORT=8080 LOG_FORMAT=json
WORKDIR /app
COPY --from=packages /app/node_modules node_modules
COPY package.json LICENSE ./
COPY samples samples
COPY docs/guides docs/guides
COPY sql sql
COPY src src
# The service writes no files, so the file system may be read-only. The user is `node`, as a number, because Kubernetes
# cannot tell from a name that it is not root (`runAsNonRoot`).
USER 1000:1000
EXPOSE 8080
# Checks only that the process answers, because a restart does not help while the database is down.
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s --retries=3 \
  CMD ["node", "--eval", "fetch(`http://127.0.0.1:${process.env.PORT}/health/live`).then((r) => process.exit(r.ok ? 0 : 1), () => process.exit(1))"]
ENTRYPOINT ["node", "--max-semi-space-size=16", "--heap-growing-percent=60", "src/main.ts"]
CMD ["serve"]
