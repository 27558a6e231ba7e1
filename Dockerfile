# docker build -t epsaudit . && docker run --rm --user "$(id -u)" -v "$PWD:/work" epsaudit audit mine:mechanism --out results
FROM python:3.12-slim
COPY pyproject.toml README.md LICENSE /src/
COPY audit /src/audit
COPY mechanisms /src/mechanisms
COPY experiments /src/experiments
RUN python -m pip install --no-cache-dir '/src[report]' pytest
ENV HOME=/tmp PYTHONPATH=/work
USER nobody
WORKDIR /work
ENTRYPOINT ["epsaudit"]
CMD ["--help"]
