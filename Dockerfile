# docker build -t omnigraph .      docker run -p 8080:8080 -v ./people:/data/people omnigraph /data/people --bind 0.0.0.0:8080
FROM python:3.12-slim AS build
WORKDIR /source
COPY pyproject.toml setup.py constraints.txt README.md LICENSE ./
COPY src ./src
COPY docs ./docs
RUN python -m venv /opt/omnigraph \
 && /opt/omnigraph/bin/pip install --no-cache-dir -c constraints.txt ".[server,otel]"

FROM python:3.12-slim
RUN useradd --system --uid 10001 --create-home omnigraph && mkdir /data && chown omnigraph /data
COPY --from=build /opt/omnigraph /opt/omnigraph
ENV PATH=/opt/omnigraph/bin:$PATH
USER omnigraph
WORKDIR /data
EXPOSE 8080
STOPSIGNAL SIGTERM
ENTRYPOINT ["omnigraph-server"]
