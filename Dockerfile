# The server with its dashboard, on the CPU: scheduling real kernels on GPUs is for the host itself.
#
#   docker build -t hybrid-scheduler .
#   docker run -p 127.0.0.1:8000:8000 -v hybrid-data:/data --name scheduler hybrid-scheduler
#   docker exec scheduler cat /data/token

FROM node:22-slim AS dashboard
WORKDIR /build/dashboard
COPY dashboard/package.json dashboard/package-lock.json dashboard/.npmrc ./
# Not `ci`: it insists on the binaries of every platform, and the lock may know only some.
RUN npm install --no-save --no-audit --no-fund
COPY dashboard/ ./
RUN npm run build

FROM python:3.11-slim AS build
WORKDIR /build
# No pip inside: the runtime image installs nothing.
RUN python -m venv --without-pip /opt/hybrid-scheduler
COPY requirements.txt ./
RUN --mount=type=cache,target=/root/.cache/pip \
    pip --python /opt/hybrid-scheduler/bin/python install --require-hashes --requirement requirements.txt
COPY LICENSE README.md hatch_build.py pyproject.toml ./
COPY src/ src/
# The built files alone: without its sources hatch_build.py takes the dashboard as it is, and needs no Node.
COPY --from=dashboard /build/dashboard/dist/ dashboard/dist/
RUN --mount=type=cache,target=/root/.cache/pip \
    pip wheel --no-deps --wheel-dir /build/wheels . \
    && pip --python /opt/hybrid-scheduler/bin/python install --no-deps /build/wheels/*.whl

FROM python:3.11-slim
RUN groupadd --system --gid 10001 scheduler \
    && useradd --system --uid 10001 --gid 10001 --home-dir /data --shell /usr/sbin/nologin scheduler \
    && install --directory --owner scheduler --group scheduler --mode 0700 /data
COPY --from=build /opt/hybrid-scheduler /opt/hybrid-scheduler
# Everything a run writes lies in /data, so that the rest may be read-only. The server listens to other machines and
# therefore has a token: API_TOKEN, or else the one it makes in this file at its first start.
# hadolint ignore=DL3064
ENV PATH=/opt/hybrid-scheduler/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    ENVIRONMENT=container \
    LOG_FILE=/data/logs/app.log \
    HYBRID_SERVER__TOKEN_FILE=/data/token \
    NUMBA_CACHE_DIR=/data/cache/numba \
    MPLCONFIGDIR=/data/cache/matplotlib
# The settings' relative paths begin with data/: from here that is the volume.
WORKDIR /
VOLUME /data
USER 10001:10001
EXPOSE 8000
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=15s --timeout=5s --start-period=120s --retries=3 \
    CMD ["python", "-c", "from http.client import HTTPConnection as C; c = C('127.0.0.1', 8000, timeout=4); c.request('GET', '/api/health/live'); raise SystemExit(c.getresponse().status != 200)"]
ENTRYPOINT ["hybrid-scheduler"]
CMD ["serve", "--host", "0.0.0.0", "--port", "8000"]
