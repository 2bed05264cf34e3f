# The broker as an image: built in one stage, run as a user without rights in the other.
#
#     docker build -t mqlite-actor .
#     docker run -p 127.0.0.1:6754:6754 -v mqlite:/data --stop-timeout 30 --read-only mqlite-actor
#
# The token is printed once on stderr (docker logs) unless MQLITE_TOKENS is set. Both programs are in it:
# `docker exec -it NAME mqlite top`, and `--entrypoint mqlite-mcp` for agents. deploy/compose.yaml has all of
# this as a file; tests/deploy runs these very steps and starts what they make.
# For a build that can be repeated, name the base by digest: --build-arg PYTHON=python@sha256:…
ARG PYTHON=python:3.12-slim-bookworm

FROM ${PYTHON} AS build
WORKDIR /src
COPY pyproject.toml README.md LICENSE ./
COPY mqlite_actor ./mqlite_actor
COPY services ./services
# The wheel is installed into an environment that the next stage takes whole; pip stays behind.
RUN python -m venv --without-pip /opt/mqlite \
    && pip wheel --no-cache-dir --no-deps --wheel-dir /wheels . \
    && pip --python /opt/mqlite/bin/python install --no-cache-dir --no-compile \
        "$(echo /wheels/mqlite_actor-*.whl)[all]" \
    && /opt/mqlite/bin/python -m compileall -q /opt/mqlite/lib

FROM ${PYTHON}
LABEL org.opencontainers.image.title="mqlite-actor" \
    org.opencontainers.image.description="A durable message queue in one SQLite file" \
    org.opencontainers.image.licenses="MIT"
# 10001 is above every distribution's own users, so it never stands for somebody on the host.
RUN groupadd --gid 10001 mqlite \
    && useradd --uid 10001 --gid mqlite --no-create-home --home-dir /data --shell /usr/sbin/nologin mqlite \
    && install -d -o mqlite -g mqlite -m 0700 /data
COPY --from=build /opt/mqlite /opt/mqlite
# Nothing is written outside /data, so the root file system may be read-only.
ENV PATH=/opt/mqlite/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    MQLITE_DB=file:/data/mq.db
USER 10001:10001
WORKDIR /data
VOLUME /data
EXPOSE 6754
STOPSIGNAL SIGTERM
# -I: nothing in the current folder, which is where the backups are, is taken for a module.
# It asks where MQLITE_ADDR says that the broker listens. Over TLS nothing is verified: it asks itself. http.client, because urllib would send the probe through a proxy named in the environment.
HEALTHCHECK --interval=10s --timeout=3s --start-period=10s --retries=3 \
    CMD ["python", "-I", "-c", "import http.client as h, os, ssl, sys; host, _, port = os.environ.get('MQLITE_ADDR', ':6754').rpartition(':'); host = host.strip('[]'); a = ({'': '127.0.0.1', '0.0.0.0': '127.0.0.1', '::': '::1'}.get(host, host), int(port)); t = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT); t.check_hostname = False; t.verify_mode = ssl.CERT_NONE; c = h.HTTPSConnection(*a, timeout=2, context=t) if os.environ.get('MQLITE_TLS_CERT') else h.HTTPConnection(*a, timeout=2); c.request('GET', '/healthz'); sys.exit(c.getresponse().status != 200)"]
ENTRYPOINT ["mqlite"]
CMD ["serve"]
