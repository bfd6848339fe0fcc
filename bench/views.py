"""Managers of Scrollback beside those of other packages, on public transcripts, measured by the same figures in one run.

Usage: views.py BENCH_BINARY DATA [MARKDOWN]. The binary is the benchmark `views` of scrollback-core: it writes the conversations,
this program asks the other packages what they would have sent before every reply, and the binary judges everyone's views.
A package that takes longer than SCROLLBACK_VIEWS_SECONDS (20) of processor time for one conversation and budget is judged without
it and longer ones, and the table says over how many it was.
"""

import asyncio
import contextlib
import datetime
import importlib.metadata
import io
import json
import logging
import multiprocessing
import os
import pathlib
import signal
import subprocess
import sys
import tempfile

# What each package is asked for. Windows of messages have no budget; the others get that of the set.
PEERS = ["langchain", "litellm", "agent-framework truncation", "agent-framework composed", "strands window"]
# Seconds of its own time that a package may take for one conversation and budget.
SECONDS = float(os.environ.get("SCROLLBACK_VIEWS_SECONDS", "20"))
NAMES = {
    "langchain": "LangChain `trim_messages({B})`",
    "litellm": "LiteLLM `trim_messages({B})`",
    "agent-framework truncation": "Agent Framework `TruncationStrategy({B}, {low})`",
    "agent-framework composed": "Agent Framework `TokenBudgetComposedStrategy({B})`, tool results then window",
    "strands window": "Strands `SlidingWindowConversationManager(40, per_turn=True)`",
}


def langchain(conversation, budget):
    from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage, trim_messages

    def arguments(call):
        with contextlib.suppress(ValueError):
            value = json.loads(call["function"]["arguments"])
            if isinstance(value, dict):
                return value
        return {"arguments": call["function"]["arguments"]}

    def made(one):
        message, at = one["message"], str(one["at"])
        if message["role"] == "system":
            return SystemMessage(message["content"], id=at)
        if message["role"] == "tool":
            return ToolMessage(message["content"], tool_call_id=message["tool_call_id"] or "", id=at)
        if message["role"] == "user":
            return HumanMessage(message["content"], id=at)
        calls = [{"name": call["function"]["name"], "args": arguments(call), "id": call["id"]} for call in message.get("tool_calls", [])]
        return AIMessage(message["content"], tool_calls=calls, id=at)

    tokens = {str(one["at"]): one["tokens"] for one in conversation["messages"]}
    messages = [made(one) for one in conversation["messages"]]

    def counted(some):
        return 3 + sum(tokens[message.id] for message in some)

    for reply in conversation["replies"]:
        before = [message for message in messages if int(message.id) < reply]
        # `start_on="human"`, as in its guide, leaves nothing of an agent's long turn: a reply of the model may come first, too.
        kept = trim_messages(before, max_tokens=budget, token_counter=counted, strategy="last", include_system=True,
                             start_on=("human", "ai"), end_on=("human", "tool", "ai"))
        yield reply, [int(message.id) for message in kept]


def litellm(conversation, budget):
    import litellm as package

    for reply in conversation["replies"]:
        before = [one for one in conversation["messages"] if one["at"] < reply]
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            sent = package.utils.trim_messages([one["message"] for one in before], model="gpt-4", max_tokens=budget)
        shown, left = [], list(before)
        for message in sent:
            same = next((one for one in left if one["message"] == message), None)
            if same:
                left.remove(same)
                shown.append(same["at"])
                continue
            alike = next((one for one in left if one["message"]["role"] == message["role"]
                          and one["message"].get("tool_call_id") == message.get("tool_call_id")
                          and one["message"]["content"][:8] == (message.get("content") or "")[:8]), None)
            shown.append({"at": alike and alike["at"], "role": message["role"], "text": message.get("content") or ""})
        yield reply, shown


def framework(conversation, strategy):
    from agent_framework import Content, Message

    def made(one):
        message = one["message"]
        if message["role"] == "tool":
            contents = [Content.from_function_result(call_id=message["tool_call_id"] or "", result=message["content"])]
        else:
            contents = [Content.from_text(message["content"])] if message["content"] else []
            contents += [Content.from_function_call(call_id=call["id"] or "", name=call["function"]["name"], arguments=call["function"]["arguments"])
                         for call in message.get("tool_calls", [])]
        return Message(role=message["role"], contents=contents, message_id=str(one["at"]))

    from agent_framework import _compaction as compaction

    messages, left = [], list(conversation["messages"])
    for reply in conversation["replies"]:
        while left and left[0]["at"] < reply:
            messages.append(made(left.pop(0)))
        # What was excluded stays so, as in an agent that runs.
        sent = asyncio.run(compaction.apply_compaction(messages, strategy=strategy.strategy, tokenizer=strategy.tokenizer))
        shown = []
        for message in sent:
            if message.message_id and message.message_id.isdigit():
                shown.append(int(message.message_id))
            else:
                shown.append({"at": None, "role": str(message.role), "text": message.text or ""})
        yield reply, shown


class Strategy:
    """A strategy of Agent Framework, with a tokenizer that knows the text of whole messages already."""

    def __init__(self, conversation, budget, composed):
        from agent_framework import _compaction as compaction
        import tiktoken

        try:
            encoding = tiktoken.get_encoding("o200k_base")
        except Exception:  # noqa: BLE001: without a network the vocabulary of LiteLLM's package is used
            import litellm as package

            encoding = package.encoding
        known = {}

        class Counter:
            def count_tokens(self, text):
                if text not in known:
                    known[text] = len(encoding.encode(text, disallowed_special=()))
                return known[text]

        self.tokenizer = Counter()
        truncation = compaction.TruncationStrategy(max_n=budget, compact_to=budget * 3 // 5, tokenizer=self.tokenizer)
        self.strategy = truncation if not composed else compaction.TokenBudgetComposedStrategy(
            token_budget=budget, tokenizer=self.tokenizer,
            strategies=[compaction.ToolResultCompactionStrategy(keep_last_tool_call_groups=3), compaction.SlidingWindowStrategy(keep_last_groups=20)])


def strands(conversation, _budget):
    from strands.agent.conversation_manager import SlidingWindowConversationManager

    class Agent:
        messages = []

    agent, manager, places, system = Agent(), SlidingWindowConversationManager(40, per_turn=True), {}, []
    agent.messages = []
    left = list(conversation["messages"])

    def take(one):
        message, at = one["message"], one["at"]
        if message["role"] == "system":
            system.append(at)
            return
        if message["role"] == "tool":
            block = {"toolResult": {"toolUseId": message["tool_call_id"] or "", "status": "success", "content": [{"text": message["content"]}]}}
            last = agent.messages[-1] if agent.messages else None
            if last and last["role"] == "user" and all("toolResult" in part for part in last["content"]):
                last["content"].append(block)
                places[id(last)].append(at)
                return
            made = {"role": "user", "content": [block]}
        else:
            content = [{"text": message["content"]}] if message["content"] else []
            for call in message.get("tool_calls", []):
                content.append({"toolUse": {"toolUseId": call["id"] or "", "name": call["function"]["name"], "input": call["function"]["arguments"]}})
            made = {"role": message["role"], "content": content}
        places[id(made)] = [at]
        keep.append(made)  # an id is only good while its message lives
        agent.messages.append(made)

    keep = []
    for reply in conversation["replies"]:
        while left and left[0]["at"] < reply:
            take(left.pop(0))
        manager.apply_management(agent)
        yield reply, system + [at for message in agent.messages for at in places[id(message)]]


def views(peer, conversation, budget):
    if peer == "langchain":
        return langchain(conversation, budget)
    if peer == "litellm":
        return litellm(conversation, budget)
    if peer == "strands window":
        return strands(conversation, budget)
    return framework(conversation, Strategy(conversation, budget, peer.endswith("composed")))


class TooLong(BaseException):
    """The time is over. Not an `Exception`, because some packages go on after those."""


def too_long(_signal, _frame):
    raise TooLong


def lines(job):
    """The views of one package for one budget over a set, shortest conversation first. What takes longer than a limit of its own time
    twice would do so for the longer conversations too: those are left out."""
    peer, budget, conversations = job
    logging.disable(logging.CRITICAL)
    signal.signal(signal.SIGPROF, too_long)
    # A window without a budget is judged over all calls.
    name = NAMES[peer].format(B=f"{budget / 1000:g}k", low=f"{budget * 3 // 5 / 1000:g}k")
    done, slow = [], 0
    for conversation in sorted(conversations, key=lambda one: sum(message["tokens"] for message in one["messages"])):
        signal.setitimer(signal.ITIMER_PROF, SECONDS)
        try:
            made = list(views(peer, conversation, budget))
        except TooLong:
            slow += 1
            if slow == 2:
                break
            continue
        except Exception as error:  # noqa: BLE001: what another package cannot do is told, and the rest goes on
            print(f"{peer} fails on {conversation['conversation']}: {type(error).__name__}: {str(error)[:120]}", file=sys.stderr)
            continue
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
        done.append(json.dumps({"set": conversation["set"], "manager": name, "budget": None if peer == "strands window" else budget,
                                "conversation": conversation["conversation"], "views": made}))
    if len(done) < len(conversations):
        print(f"{name}: {len(done)} of {len(conversations)} conversations of {conversations[0]['set']}, {SECONDS:g} s each", file=sys.stderr)
    return done


def main():
    binary, data, *rest = sys.argv[1:]
    sets = "claude-code,tau-bench,swe-agent,openhands"
    with tempfile.TemporaryDirectory() as folder:
        exported = pathlib.Path(folder, "conversations.jsonl")
        subprocess.run([binary, "--bench", "--data", data, "--set", sets, "--export", exported], check=True)
        sets_of, jobs = {}, []
        for text in exported.read_text().splitlines():
            conversation = json.loads(text)
            sets_of.setdefault(conversation["set"], []).append(conversation)
        for conversations in sets_of.values():
            for peer in PEERS:
                budgets = conversations[0]["budgets"]
                jobs += [(peer, budget, conversations) for budget in (budgets[:1] if peer == "strands window" else budgets)]
        with multiprocessing.Pool() as pool:
            lines_made = [one for some in pool.imap(lines, jobs) for one in some]
        made = pathlib.Path(folder, "views.jsonl")
        made.write_text("\n".join(lines_made))
        run = subprocess.run([binary, "--bench", "--data", data, "--set", sets, "--peers", made], check=True, stdout=subprocess.PIPE, text=True)
    rows = [json.loads(text) for text in run.stdout.splitlines()]
    text = table(rows)
    print(text)
    if rest:
        pathlib.Path(rest[0]).write_text(text)


def budget_of(row):
    """The number that a manager of ours has for its budget: `auto(8000)` and `sticky(token_budget(8000))` have the same."""
    digits = "".join(letter if letter.isdigit() else " " for letter in row["manager"]).split()
    return digits[0] if digits and row["manager"].startswith(("auto(", "sticky(token_budget(", "token_budget(", "relevant(")) else None


def table(rows):
    share = lambda value: "–" if value is None else f"{value * 100:.0f} %"  # noqa: E731
    packages = ["langchain-core", "strands-agents", "agent-framework-core", "litellm"]
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in packages)
    out = [f"Measured on {datetime.date.today()} with {versions}.", ""]
    for name in dict.fromkeys(row["set"] for row in rows):
        own = sorted((row for row in rows if row["set"] == name), key=lambda row: row["cost"])
        sticky = {budget_of(row): row for row in own if row["manager"].startswith("sticky(token_budget(")}
        most = max(row["conversations"] for row in own)
        out += [f"**{name}** ({most} conversations, {max(row['calls'] for row in own)} calls)", "",
                "| manager | cost | input | over budget | × sticky | tokens per call | arguments kept | answers grounded | task kept | broken pairs |",
                "|---|---|---|---|---|---|---|---|---|---|"]
        for row in own:
            manager = row["manager"] if "`" in row["manager"] else f"`{row['manager']}`"
            if row["conversations"] < most:
                manager += f" ({row['conversations']} conversations)"
            peer = sticky.get(budget_of(row)) if row["conversations"] == most else None
            ratio = f"{row['over_calls_cost'] / peer['over_calls_cost']:.2f}" if peer and peer["over_calls_cost"] else "–"
            out.append(f"| {manager} | {row['cost']:.2f} | {row['input_cost']:.2f} | {row['over_calls_cost']:.2f} | {ratio} | {row['tokens_per_call']:,} "
                       f"| {share(row['arguments'])} | {share(row['answers'])} | {share(row['task'])} | {row['violations']} |")
        out.append("")
    return "\n".join(out)


if __name__ == "__main__":
    main()
