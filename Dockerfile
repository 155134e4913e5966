# A small image of Rangeway: the single executable on a base without a shell. It runs as another user than root, and with a root
# file system that is read-only. docs/packages.md says how to use it.
#
#   docker build -t rangeway .
#   docker buildx build --platform linux/amd64,linux/arm64 -t REGISTRY/rangeway --push .
#
# The build runs on the machine of the builder for every platform: nothing is emulated.

FROM --platform=$BUILDPLATFORM node:26-bookworm-slim AS build
ARG TARGETARCH
WORKDIR /src
# strip for both architectures, and the only library of the executable that the base lacks.
RUN dpkg --add-architecture "${TARGETARCH:-$(dpkg --print-architecture)}" \
  && apt-get update \
  && apt-get install -y --no-install-recommends binutils binutils-aarch64-linux-gnu binutils-x86-64-linux-gnu \
  && apt-get download "libatomic1:${TARGETARCH:-$(dpkg --print-architecture)}" \
  && dpkg-deb --extract libatomic1_*.deb /image \
  && rm -rf libatomic1_*.deb /var/lib/apt/lists/*
COPY package.json package-lock.json ./
# The script "prepare" of a checkout needs the source, which is copied after this layer.
RUN npm pkg delete scripts.prepare && npm ci --no-audit --no-fund
COPY . .
RUN npm run build:binary -- --arch "${TARGETARCH:-$(uname -m)}" --out /out
RUN install -D -m 755 /out/bin/rangeway /image/usr/bin/rangeway \
  && install -D -m 644 /out/bin/LICENSES.txt /image/usr/share/doc/rangeway/LICENSES.txt \
  && install -d -m 755 /image/etc/rangeway \
  && install -d -m 700 /store

FROM gcr.io/distroless/cc-debian12:nonroot
ARG VERSION=0.1.0
ARG REVISION=
LABEL org.opencontainers.image.title="Rangeway" \
  org.opencontainers.image.description="A reverse caching proxy that puts HTTP byte ranges in front of any origin" \
  org.opencontainers.image.licenses="MIT" \
  org.opencontainers.image.version="${VERSION}" \
  org.opencontainers.image.revision="${REVISION}" \
  org.opencontainers.image.base.name="gcr.io/distroless/cc-debian12:nonroot"
COPY --from=build /image/ /
COPY --from=build --chown=65532:65532 /store /var/cache/rangeway
# Stores are in /var/cache/rangeway/<host>-<port>, where "rangeway health" and the other commands find them.
ENV XDG_CACHE_HOME=/var/cache
VOLUME ["/var/cache/rangeway"]
# A number, so that Kubernetes can check that it is not root.
USER 65532:65532
EXPOSE 8080
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=30s --timeout=10s --start-period=15s --retries=3 CMD ["/usr/bin/rangeway", "health"]
ENTRYPOINT ["/usr/bin/rangeway"]
CMD ["--config", "/etc/rangeway/rangeway.json"]
