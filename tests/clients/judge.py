"""What the scripted provider refuses: the checks of the real ones that a cut history is most likely to fail.

They are written here a second time, apart from the rules of `scrollback check`, so that a mistake there is found here.
"""

import hashlib
import json

from caching import spelled, without_marks


def blocks(message):
    content = message.get("content")
    return [{"type": "text", "text": content}] if isinstance(content, str) else list(content or [])


def bound(model):
    """Models whose thinking blocks are bound to what stood before them."""
    return "opus-5-5" in model or "fable-5" in model


def prefix(body, place, number):
    """What a thinking block is bound to: what was said before it. Arguments are left out: clients spell them anew."""
    chain = hashlib.sha256()
    system = body.get("system") or ""
    if isinstance(system, list):
        # The first line of Claude Code's changes with its build.
        system = [block.get("text") for block in system if "billing-header" not in block.get("text", "")]
    chain.update(spelled(system).encode())
    for index, message in enumerate(body["messages"][: place + 1]):
        for at, block in enumerate(blocks(message)):
            if index == place and at >= number:
                break
            if block.get("type") == "tool_use":
                block = {"id": block["id"], "name": block["name"]}
            elif block.get("type") == "thinking":
                block = {"signature": block.get("signature")}
            chain.update((message["role"] + spelled(without_marks(block))).encode())
    return chain.hexdigest()[:24]


def sign(body):
    """Signs the thoughts of the reply to a request."""
    tied = prefix(body, len(body["messages"]), 0)

    def one(words):
        return f"signed-{hashlib.sha256(words.encode()).hexdigest()[:12]}-{tied}"

    return one


def messages(body):
    """What the Messages API would refuse."""
    listed = body.get("messages") or []
    if not listed:
        return ["messages: at least one message is required"]
    if listed[0]["role"] != "user" and not (blocks(listed[0]) and blocks(listed[0])[0].get("type") == "compaction"):
        return ["messages: first message must use the user role"]
    found, pending, marks = [], None, 0
    previous = None
    for place, message in enumerate(listed):
        role, parts = message["role"], blocks(message)
        # Claude Code sends system messages that only set `output_config`.
        if not parts and role != "system" and not (role == "assistant" and place == len(listed) - 1):
            found.append(f"messages.{place}: all messages must have non-empty content")
        if role == "system":
            if previous not in ("user",) or (place + 1 < len(listed) and listed[place + 1]["role"] == "user"):
                found.append(f"messages.{place}: a system message stands between {previous} and user")
            previous = role
            continue
        if role == "user" and pending is not None and previous != "user":
            answered = {part.get("tool_use_id") for part in parts if part.get("type") == "tool_result"}
            if pending - answered:
                found.append(f"messages.{place}: tool_use ids were found without tool_result blocks: {sorted(pending - answered)}")
        results = {part.get("tool_use_id") for part in parts if part.get("type") == "tool_result"}
        if results - (pending or set()) and previous != "user":
            found.append(f"messages.{place}: unexpected tool_use_id found in tool_result blocks: {sorted(results)}")
        for number, part in enumerate(parts):
            if part.get("type") == "text" and not part["text"].strip():
                found.append(f"messages.{place}: text content blocks must contain non-whitespace text")
            if part.get("type") == "thinking":
                words = hashlib.sha256(part["thinking"].encode()).hexdigest()[:12]
                kind, spoken, tied = (str(part.get("signature")).split("-") + ["", ""])[:3]
                if kind != "signed" or (part["thinking"] and spoken != words):
                    found.append(f"messages.{place}.content.{number}: Invalid `signature` in `thinking` block")
                elif bound(body["model"]) and tied != prefix(body, place, 0):
                    found.append(f"messages.{place}.content.{number}: the block is bound to a different conversation")
        if role == "assistant":
            pending = {part["id"] for part in parts if part.get("type") == "tool_use"}
        elif role == "user":
            pending = None if previous == "assistant" or pending is None else pending
        previous = role
    if previous == "assistant":
        found.append("This model does not support assistant message prefill.")
    for place in [*(body.get("tools") or []), *(body.get("system") if isinstance(body.get("system"), list) else [])]:
        marks += "cache_control" in place
    marks += sum("cache_control" in part for message in listed for part in blocks(message))
    if marks > 4:
        found.append(f"A maximum of 4 blocks with cache_control may be provided. Found {marks}.")
    return found


def responses(body, known):
    """What the Responses API would refuse."""
    given = body.get("input") or []
    if isinstance(given, str):
        return []
    calls, answered, found = set(known), set(), []
    for place, item in enumerate(given):
        kind = item.get("type") or "message"
        if kind in ("function_call", "custom_tool_call", "local_shell_call", "tool_search_call"):
            calls.add(item.get("call_id"))
        elif kind in ("function_call_output", "custom_tool_call_output", "local_shell_call_output", "tool_search_output"):
            if item["call_id"] not in calls:
                found.append(f"No tool call found for function call output with call_id {item['call_id']}.")
            answered.add(item["call_id"])
        elif kind == "reasoning":
            follower = given[place + 1] if place + 1 < len(given) else {}
            own = (follower.get("type") or "message") in ("message", "function_call", "custom_tool_call", "reasoning")
            if not own or follower.get("role", "assistant") != "assistant":
                found.append(f"Item '{item.get('id')}' of type 'reasoning' was provided without its required following item.")
            if item.get("encrypted_content") and not str(item["encrypted_content"]).startswith("sealed-"):
                found.append("The encrypted content could not be verified.")
    for missing in sorted(str(one) for one in calls - answered - set(known)):
        found.append(f"No tool output found for function call {missing}.")
    return found


def chat(body):
    """What Chat Completions would refuse."""
    found, pending = [], set()
    for place, message in enumerate(body.get("messages") or []):
        if message["role"] == "tool":
            if message.get("tool_call_id") not in pending:
                found.append(f"messages.[{place}]: a tool message must follow a message with its tool_calls")
            pending.discard(message.get("tool_call_id"))
            continue
        if pending:
            found.append(f"messages.[{place}]: tool_call_ids did not have response messages: {sorted(pending)}")
        pending = {call["id"] for call in message.get("tool_calls") or []}
    if pending:
        found.append(f"tool_call_ids did not have response messages: {sorted(pending)}")
    return found


def gemini(body):
    """What generateContent would refuse."""
    found, open_calls, previous = [], 0, None
    for place, content in enumerate(body.get("contents") or []):
        parts = content.get("parts") or []
        if not parts:
            found.append(f"contents[{place}].parts must not be empty")
        answers = sum("functionResponse" in part for part in parts)
        if answers and answers != open_calls and previous == "model":
            found.append("the number of function response parts must equal that of function call parts of the turn before")
        if answers and previous != "model":
            found.append("a function response turn must come immediately after a function call turn")
        open_calls = sum("functionCall" in part for part in parts)
        if open_calls and previous not in ("user", "function", None):
            found.append("a function call turn must come immediately after a user turn or after a function response turn")
        previous = content.get("role", "user")
    return found


def readable(body):
    try:
        return json.loads(body)
    except ValueError:
        return None
