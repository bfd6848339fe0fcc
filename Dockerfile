# An image with nothing in it but the program, its manual and the certificates that providers are checked against.
#
#   docker build -t scrollback .
#   docker run --rm -v scrollback:/data scrollback key add laptop
#   docker run -d -p 7275:7275 -v scrollback:/data scrollback

FROM rust:1.95-alpine AS build
RUN apk add --no-cache musl-dev ca-certificates
WORKDIR /src
COPY Cargo.toml Cargo.lock ./
COPY crates crates
COPY examples examples
COPY corpus corpus
RUN cargo build --release --locked -p scrollback-cli \
    && mkdir -p /out/bin /out/data /out/share/man/man1 /out/share/bash-completion/completions \
        /out/share/zsh/site-functions /out/share/fish/vendor_completions.d \
    && cp target/release/scrollback /out/bin/ \
    && /out/bin/scrollback man /out/share/man/man1 \
    && /out/bin/scrollback completions bash > /out/share/bash-completion/completions/scrollback \
    && /out/bin/scrollback completions zsh > /out/share/zsh/site-functions/_scrollback \
    && /out/bin/scrollback completions fish > /out/share/fish/vendor_completions.d/scrollback.fish

FROM scratch
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=build /out/bin/scrollback /usr/local/bin/scrollback
COPY --from=build /out/share /usr/local/share
# The record: a folder of the one user there is, which no one else may read.
COPY --from=build --chown=65532:65532 --chmod=0700 /out/data /data
USER 65532:65532
ENV SCROLLBACK_STORE=sqlite:/data/scrollback.db
VOLUME /data
WORKDIR /data
EXPOSE 7275
HEALTHCHECK --interval=15s --timeout=5s --start-period=10s CMD ["/usr/local/bin/scrollback", "doctor", "--server"]
ENTRYPOINT ["/usr/local/bin/scrollback"]
# Other machines are served only with a key: make one first, or the server says so and ends.
CMD ["serve", "--listen", "0.0.0.0:7275", "--log-format", "json"]
