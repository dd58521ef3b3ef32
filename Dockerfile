# `ramet serve` and `ramet worker` for Kubernetes: see docs/kubernetes.md. It runs as a user without rights, and writes
# below /var/lib/ramet and /tmp only, so that its root file system can be read-only.
FROM docker.io/library/python:3.13-slim AS build
WORKDIR /source
COPY script/uv-bootstrap.lock script/
RUN pip install --no-cache-dir --require-hashes --requirement script/uv-bootstrap.lock
COPY requirements.lock pyproject.toml README.md LICENSE ./
COPY src src
RUN uv venv --quiet /opt/ramet \
    && uv pip install --quiet --no-cache --python /opt/ramet --constraint requirements.lock --compile-bytecode .

FROM docker.io/library/python:3.13-slim
RUN useradd --uid 10001 --user-group --no-create-home --home-dir /tmp --shell /usr/sbin/nologin ramet \
    && install --directory --owner=10001 --group=10001 --mode=0700 /var/lib/ramet
COPY --from=build /opt/ramet /opt/ramet
ENV PATH=/opt/ramet/bin:$PATH PYTHONDONTWRITEBYTECODE=1 HOME=/tmp RAMET_DATA_DIR=/var/lib/ramet
USER 10001:10001
EXPOSE 8080 8081
ENTRYPOINT ["ramet"]
