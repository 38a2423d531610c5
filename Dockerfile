# The page of a collection, without root and without anything to write but two volumes:
#   docker build -t nearsay .
#   docker run --read-only --tmpfs /tmp --cap-drop ALL --security-opt no-new-privileges -p 127.0.0.1:8017:8017 \
#       -v birds:/collections -v nearsay-cache:/cache -e NEARSAY_TOKEN nearsay
# docs/operate.md says more.
FROM python:3.13-slim-bookworm AS build
WORKDIR /build
COPY pyproject.toml README.md LICENSE ./
COPY src src
RUN python -m venv /opt/nearsay \
    && /opt/nearsay/bin/pip install --no-cache-dir --disable-pip-version-check ".[web,images,text]"

FROM python:3.13-slim-bookworm
COPY --from=build /opt/nearsay /opt/nearsay
RUN useradd --uid 10001 --no-create-home --home-dir /collections --shell /usr/sbin/nologin nearsay \
    && install --directory --owner nearsay --group nearsay --mode 0700 /collections /cache
ENV PATH=/opt/nearsay/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    XDG_CONFIG_HOME=/collections/.config \
    XDG_CACHE_HOME=/cache \
    NUMBA_CACHE_DIR=/cache/numba \
    MPLCONFIGDIR=/tmp/matplotlib
USER 10001:10001
VOLUME ["/collections", "/cache"]
EXPOSE 8017
HEALTHCHECK --interval=30s --timeout=5s --start-period=60s \
    CMD ["python", "-c", "from urllib.request import urlopen; urlopen('http://127.0.0.1:8017/health', timeout=4)"]
ENTRYPOINT ["nearsay"]
CMD ["serve", "/collections/collection.nearsay", "--host", "0.0.0.0", "--port", "8017", "--access-log"]
