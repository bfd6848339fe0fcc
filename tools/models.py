#!/usr/bin/env python3
"""Trim LiteLLM's model table to the columns and providers Scrollback looks up.

usage: models.py TABLE.json VERSION DATE > crates/core/data/models.csv

TABLE.json is `model_prices_and_context_window_backup.json` of the PyPI package
`litellm`; VERSION and DATE say which release it came from and when.
"""

import json
import sys
from decimal import Decimal

HEAD = """\
# Windows and prices of models, looked up by crates/core/src/model/facts.rs.
# Source: model_prices_and_context_window_backup.json of the PyPI package litellm {version}, taken {date}.
# Licence: MIT, Copyright (c) 2023 Berri AI; see LICENSE-litellm beside this file.
# Regenerate: pip download --no-deps litellm, unzip the wheel, then
#   python3 tools/models.py litellm/model_prices_and_context_window_backup.json VERSION DATE > crates/core/data/models.csv
# Windows are the most input a model takes, in tokens. Prices are US dollars per million tokens
# at the standard tier for short prompts. Empty means not known, and is never to be read as zero.
# Lines are sorted by the bytes of the first column, which is what makes the lookup right.
# model,context_window,max_output,input_per_mtok,output_per_mtok,cache_read_per_mtok,cache_write_per_mtok
"""

# LiteLLM's providers, and what each is called here.
PROVIDERS = {
    "openai": "openai",
    "anthropic": "anthropic",
    "gemini": "gemini",
    "bedrock": "bedrock",
    "bedrock_converse": "bedrock",
}

MODES = {"chat", "responses"}

PRICES = (
    "input_cost_per_token",
    "output_cost_per_token",
    "cache_read_input_token_cost",
    "cache_creation_input_token_cost",
)


def per_million(price):
    """A price per token as dollars per million, spelled without exponent or trailing zeros.

    The source writes 0 both for what is free and for what it does not know, so 0 becomes empty.
    """
    if not price:
        return ""
    return f"{(Decimal(price) * 1_000_000).normalize():f}"


def whole(tokens):
    return str(tokens) if isinstance(tokens, int) and tokens > 0 else ""


def rows(table):
    """One row a model. Of a name with and without its provider's prefix, the one with it counts."""
    found = {}
    for key, model in sorted(table.items(), key=lambda item: "/" in item[0]):
        provider = PROVIDERS.get(model.get("litellm_provider"))
        if provider is None or model.get("mode") not in MODES:
            continue
        name = key.removeprefix(f"{provider}/")
        # What still has a slash is one region's or one commitment's price of a model listed anyway.
        window = whole(model.get("max_input_tokens"))
        if "/" in name or not window:
            continue
        prices = [per_million(model.get(column)) for column in PRICES]
        found[f"{provider}:{name}"] = [window, whole(model.get("max_output_tokens")), *prices]
    return found


def main():
    if len(sys.argv) != 4:
        sys.exit(__doc__.strip())
    path, version, date = sys.argv[1:]
    with open(path, encoding="utf-8") as file:
        table = json.load(file, parse_float=Decimal)
    sys.stdout.write(HEAD.format(version=version, date=date))
    for name, facts in sorted(rows(table).items(), key=lambda row: row[0].encode()):
        print(name, *facts, sep=",")


if __name__ == "__main__":
    main()
